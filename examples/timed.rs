//! Time: calls that do not wait, and calls that wait so long; and several receivers of one pipe.
use std::io::ErrorKind;
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let (mut receiver, mut sender) = byway::records()?;
    let mut buffer = [0; 64];
    // What is there now.
    match receiver.try_receive(&mut buffer) {
        Err(e) if e.kind() == ErrorKind::WouldBlock => println!("nothing is there"),
        other => println!("{other:?}"),
    }
    // What comes in that time.
    match receiver.receive_timeout(&mut buffer, Duration::from_millis(10)) {
        Err(e) if e.kind() == ErrorKind::TimedOut => println!("nothing came in time"),
        other => println!("{other:?}"),
    }
    // As many as there is room for, with nobody to receive them.
    let mut sent = 0;
    while sender.try_send(b"work").is_ok() {
        sent += 1;
    }
    println!("there was room: {}", sent > 0);
    // Three at once, each with a receiver of its own: each record goes to one of them.
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let mut receiver = receiver.try_clone()?;
            Ok(std::thread::spawn(move || -> std::io::Result<usize> {
                let (mut buffer, mut records) = ([0; 64], 0);
                while let Some(n) =
                    receiver.receive_timeout(&mut buffer, Duration::from_secs(60))?
                {
                    assert_eq!(&buffer[..n], b"work");
                    records += 1;
                }
                Ok(records)
            }))
        })
        .collect::<std::io::Result<_>>()?;
    // There is room again as soon as they have begun.
    for _ in 0..1000 {
        sender.send_timeout(b"work", Duration::from_secs(60))?;
        sent += 1;
    }
    // The end, for each of them.
    drop(sender);
    let mut received = 0;
    for t in threads {
        received += t.join().expect("it does not panic")?;
    }
    println!("all arrived: {}", received == sent);
    Ok(())
}

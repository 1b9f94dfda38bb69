//! Records: three threads send, the main program receives each record whole.
fn main() -> std::io::Result<()> {
    let (mut receiver, sender) = byway::records()?;
    let threads: Vec<_> = (0..3)
        .map(|id| {
            let mut sender = sender.try_clone()?;
            Ok(std::thread::spawn(move || -> std::io::Result<()> {
                for k in 0..100 {
                    sender.send(format!("{id}: {k}").as_bytes())?;
                }
                Ok(())
            }))
        })
        .collect::<std::io::Result<_>>()?;
    drop(sender);
    let (mut buffer, mut records) = ([0; 64], 0);
    while let Some(n) = receiver.receive(&mut buffer)? {
        assert!(buffer[..n].contains(&b':'));
        records += 1;
    }
    for t in threads {
        t.join().expect("it does not panic")?;
    }
    println!("{records} records");
    Ok(())
}

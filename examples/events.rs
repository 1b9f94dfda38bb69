//! Events: one queue waits for two pipes, a timer and a word from another thread.
use byway::events::{Change, Event, Filter, Flags, Queue};
use std::io::Write;
use std::time::Duration;

fn main() -> std::io::Result<()> {
    let queue = Queue::new()?;
    let (mut ends, mut threads) = (Vec::new(), Vec::new());
    for id in 0..2 {
        let (mut reader, mut writer) = byway::pipe()?;
        queue.apply(Change::read(&mut reader).udata(id))?;
        ends.push(reader);
        threads.push(std::thread::spawn(move || -> std::io::Result<()> {
            for k in 0..100 {
                write!(writer, "line {k:05}")?;
            }
            Ok(())
        }));
    }
    queue.apply(Change::timer(0, Duration::from_millis(1)))?;
    queue.apply(Change::user(0).flags(Flags::ONESHOT))?;

    let (mut bytes, mut open, mut ticks, mut word) = (0, 2, 0, 0);
    let mut events = [Event::default(); 4];
    while word == 0 || ticks == 0 {
        let n = queue.wait(&mut events, None)?;
        for e in &events[..n] {
            match e.filter {
                Filter::Timer => ticks += e.data,
                Filter::User => word = e.data,
                // The end of the stream, and nothing left of it.
                _ if e.flags.has(Flags::EOF) && e.data == 0 => {
                    queue.apply(Change::entry(e.ident, e.filter, Flags::DELETE))?;
                    open -= 1;
                    if open == 0 {
                        queue.trigger(0, 42)?;
                    }
                }
                _ => bytes += ends[e.udata as usize].try_read(&mut [0; 100])?,
            }
        }
    }
    for t in threads {
        t.join().expect("it does not panic")?;
    }
    println!("{bytes} bytes, the word {word}");
    Ok(())
}

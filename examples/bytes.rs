//! A pipe as a stream of bytes: a thread writes lines, the main program counts them.
use std::io::{BufRead, BufReader, Write};

fn main() -> std::io::Result<()> {
    let (reader, mut writer) = byway::pipe()?;
    let child = std::thread::spawn(move || -> std::io::Result<()> {
        for k in 0..1000 {
            writeln!(writer, "line {k}")?;
        }
        Ok(())
    });
    let lines = BufReader::new(reader).lines().count();
    child.join().expect("it does not panic")?;
    println!("{lines} lines");
    Ok(())
}

//! A bidirectional pipe: a thread doubles the numbers that it is asked for.
use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    let (here, there) = byway::duplex()?;
    let child = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut reader, mut writer) = there.into_halves();
        for line in reader.buffered().lines() {
            let n: u64 = line?.parse().map_err(std::io::Error::other)?;
            writeln!(writer, "{}", 2 * n)?;
        }
        Ok(())
    });
    let (mut reader, mut writer) = here.into_halves();
    let (mut lines, mut sum) = (reader.buffered().lines(), 0);
    for k in 0..1000 {
        writeln!(writer, "{k}")?;
        let line = lines.next().expect("it answers")?;
        sum += line.parse::<u64>().map_err(std::io::Error::other)?;
    }
    drop(writer);
    child.join().expect("it does not panic")?;
    println!("1000 answers, their sum {sum}");
    Ok(())
}

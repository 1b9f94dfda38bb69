//! A FIFO by name. Without an argument: starts itself again as the writer, an unrelated program to the library.
use std::io::{Read, Write};
use std::process::Command;

fn main() -> std::io::Result<()> {
    if let Some(name) = std::env::args().nth(1) {
        return byway::Fifo::new(&name)?
            .writer()?
            .write_all(b"found by name");
    }
    let fifo = byway::Fifo::new(&format!("example-{}", std::process::id()))?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg(fifo.name())
        .spawn()?;
    let mut text = String::new();
    fifo.reader()?.read_to_string(&mut text)?;
    child.wait()?;
    fifo.remove()?;
    println!("{text}");
    Ok(())
}

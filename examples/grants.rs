//! A grant: one megabyte that is filled once, goes to two receivers, and is copied by nobody.
fn main() -> std::io::Result<()> {
    let (mut first, mut to_first) = byway::records()?;
    let (mut second, mut to_second) = byway::records()?;

    let mut buffer = byway::reserve(1 << 20)?;
    buffer.fill(7);
    let grant = buffer.share()?;
    to_first.send_grant(grant.clone())?;
    to_second.send_grant(grant)?;

    let a = first.message()?.expect("it was sent");
    let b = second.message()?.expect("it was sent");
    assert!(a.iter().all(|&x| x == 7));
    println!(
        "{} bytes, the same memory: {}",
        a.len(),
        a.as_ptr() == b.as_ptr()
    );
    Ok(())
}

//! tokio: three tasks send records, one receives them; another copies a stream of bytes. With `--features tokio`.
use byway::tokio::{AsyncReader, AsyncReceiver, AsyncSender, AsyncWriter};
use tokio::io::AsyncWriteExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let (receiver, sender) = byway::records()?;
    for id in 0..3 {
        let mut sender = AsyncSender::new(sender.try_clone()?)?;
        tokio::spawn(async move {
            for k in 0..100 {
                sender.send(format!("{id}: {k}").as_bytes()).await?;
            }
            Ok::<(), std::io::Error>(())
        });
    }
    drop(sender);
    let (reader, writer) = byway::pipe()?;
    let bytes = tokio::spawn(async move {
        let mut reader = AsyncReader::new(reader)?;
        tokio::io::copy(&mut reader, &mut tokio::io::sink()).await
    });
    let (mut receiver, mut writer) = (AsyncReceiver::new(receiver)?, AsyncWriter::new(writer)?);
    let mut records = 0;
    while let Some(record) = receiver.message().await? {
        writer.write_all(&record).await?;
        records += 1;
    }
    drop(writer);
    let bytes = bytes.await.expect("it does not panic")?;
    println!("{records} records, {bytes} bytes");
    Ok(())
}

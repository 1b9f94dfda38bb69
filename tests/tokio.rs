//! Ends in tokio: streams, records and grants among tasks and threads, the end, a broken pipe, futures that are dropped.
use byway::tokio::{AsyncReader, AsyncReceiver, AsyncSender, AsyncWriter};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const N: usize = 5_000_000;

fn byte(i: usize) -> u8 {
    (i ^ (i >> 8) ^ (i >> 16)) as u8
}

fn pipe() -> (AsyncReader, AsyncWriter) {
    let (r, w) = byway::pipe().unwrap();
    assert!(r.is_carried());
    (AsyncReader::new(r).unwrap(), AsyncWriter::new(w).unwrap())
}

async fn write(mut w: AsyncWriter) {
    let all: Vec<u8> = (0..N).map(byte).collect();
    let (mut at, mut size) = (0, 1);
    while at < N {
        let k = size.min(N - at);
        w.write_all(&all[at..at + k]).await.unwrap();
        (at, size) = (at + k, size * 7 / 2 % 300_007 + 1);
    }
}

async fn read(mut r: AsyncReader) {
    let (mut n, mut size, mut b) = (0, 3, vec![0; 200_000]);
    loop {
        let k = r.read(&mut b[..size]).await.unwrap();
        if k == 0 {
            break;
        }
        assert!(b[..k].iter().enumerate().all(|(i, &x)| x == byte(n + i)));
        (n, size) = (n + k, size * 5 / 2 % 199_999 + 1);
    }
    assert_eq!(n, N);
}

#[tokio::test]
async fn tasks_of_one_thread() {
    let (r, w) = pipe();
    tokio::join!(read(r), write(w));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_of_two_threads() {
    let (r, w) = pipe();
    let t = tokio::spawn(write(w));
    read(r).await;
    t.await.unwrap();
}

#[tokio::test]
async fn a_thread_that_waits_at_the_other_end() {
    let (r, mut w) = byway::pipe().unwrap();
    let t = std::thread::spawn(move || {
        let all: Vec<u8> = (0..N).map(byte).collect();
        w.write_all(&all).unwrap();
    });
    read(AsyncReader::new(r).unwrap()).await;
    t.join().unwrap();
    let (mut r, w) = byway::pipe().unwrap();
    let t = std::thread::spawn(move || {
        let mut all = Vec::new();
        r.read_to_end(&mut all).unwrap();
        assert!(all.iter().enumerate().all(|(i, &x)| x == byte(i)));
        all.len()
    });
    write(AsyncWriter::new(w).unwrap()).await;
    assert_eq!(t.join().unwrap(), N);
}

/// A stream that never runs dry leaves time to the other tasks.
#[tokio::test]
async fn others_have_their_turn() {
    let (mut r, mut w) = pipe();
    let stream = tokio::spawn(async move {
        loop {
            w.write_all(&[1; 100]).await.unwrap();
            r.read_exact(&mut [0; 100]).await.unwrap();
        }
    });
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    stream.abort();
    assert!(stream.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn nobody_reads_any_more() {
    let (r, mut w) = pipe();
    let t = tokio::spawn(async move {
        loop {
            if let Err(e) = w.write_all(&[0; 10_000]).await {
                return e.kind();
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(r);
    assert_eq!(t.await.unwrap(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_future_that_is_dropped_has_taken_nothing() {
    let (mut r, mut w) = pipe();
    let mut b = [0; 100];
    for k in 1..20 {
        let early = tokio::time::timeout(Duration::from_millis(1), r.read(&mut b)).await;
        assert!(early.is_err());
        w.write_all(&vec![9; k]).await.unwrap();
        let mut got = 0;
        while got < k {
            got += r.read(&mut b).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_and_grants() {
    let (r, s) = byway::records().unwrap();
    let mut receiver = AsyncReceiver::new(r).unwrap();
    let mut senders = Vec::new();
    for id in 0..3u8 {
        let mut sender = AsyncSender::new(s.try_clone().unwrap()).unwrap();
        senders.push(tokio::spawn(async move {
            for k in 0..3_000usize {
                if k % 10 > 0 {
                    sender.send(&vec![id; k % 4000]).await.unwrap();
                    continue;
                }
                let mut g = byway::reserve(20_000).unwrap();
                g.fill(id);
                sender.send_grant(g.share().unwrap()).await.unwrap();
            }
        }));
    }
    drop(s);
    let mut count = 0;
    while let Some(m) = receiver.message().await.unwrap() {
        assert!(m.windows(2).all(|w| w[0] == w[1]));
        count += 1;
    }
    assert_eq!(count, 9_000);
    for s in senders {
        s.await.unwrap();
    }
}

/// A FIFO by a name that nobody else has.
fn fifo(name: &str) -> (byway::Reader, byway::Writer) {
    let f = byway::Fifo::new(&format!("{name}-{}", std::process::id())).unwrap();
    f.remove().unwrap();
    let r = f.try_reader().unwrap();
    let w = f.try_writer().unwrap();
    f.remove().unwrap();
    (r, w)
}

/// More than may fly, into a pipe and a FIFO whose receiver comes late, or not at all.
#[tokio::test]
async fn grants_wait_for_a_late_receiver() {
    const EACH: Duration = Duration::from_secs(60);
    for (r, w) in [byway::pipe().unwrap(), fifo("late")] {
        let mut receiver = AsyncReceiver::new(byway::Receiver::new(r)).unwrap();
        let mut sender = AsyncSender::new(byway::Sender::new(w)).unwrap();
        let t = tokio::spawn(async move {
            for k in 0..30u8 {
                let mut g = byway::reserve(1 << 20).unwrap();
                g.fill(k);
                if let Err(e) = sender.send_grant(g.share().unwrap()).await {
                    return e.error.kind();
                }
            }
            panic!("nobody received the last ones");
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        for k in 0..18 {
            let m = tokio::time::timeout(EACH, receiver.message()).await;
            let m = m.expect("it comes").unwrap().unwrap();
            assert!(m.len() == 1 << 20 && m.iter().all(|&x| x == k));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!t.is_finished());
        drop(receiver);
        let said = tokio::time::timeout(EACH, t).await;
        assert_eq!(said.expect("it ends").unwrap(), ErrorKind::BrokenPipe);
    }
}

/// A thread that looks at bytes that it has read ahead holds up nobody's tasks: they are told of what comes behind.
#[tokio::test]
async fn bytes_that_another_reader_looks_at() {
    let (r, mut w) = byway::pipe().unwrap();
    w.write_all(b"hello").unwrap();
    let mut other = r.try_clone().unwrap();
    let mut b = other.buffered();
    assert_eq!(b.fill_buf().unwrap(), b"hello");
    let mut r = AsyncReader::new(r).unwrap();
    let t = tokio::spawn(async move {
        let mut b = [0; 9];
        let n = r.read(&mut b).await.unwrap();
        b[..n].to_vec()
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!t.is_finished());
    w.write_all(b"there").unwrap();
    let read = tokio::time::timeout(Duration::from_secs(60), t).await;
    assert_eq!(read.expect("it is told").unwrap(), b"there");
    assert_eq!(b.fill_buf().unwrap(), b"hello");
}

//! NetPIPE's two sides: one decides and counts the time of a block (of a stream of blocks, the other does).
//!
//! ```text
//! block:  transmitter --n bytes--> receiver        stream:  transmitter --n bytes, n bytes, ...--> receiver
//!                     <--n bytes--                                      <-- how long it took ------
//!         time: half of a round trip                        time: from the first to the last block, over their number
//! ```
//! Before each size the transmitter says size, repeats and what is asked; the receiver says the same again when it is
//! ready. Both use one buffer, as NPtcp does while the cache may help.
//! Invariant: nothing is believed of the other side: a receiver bounds what it is asked for, a transmitter what it is told.
//! Not here: how the bytes go (duplex.rs, chain.rs), which sizes (sizes.rs).
use super::Options;
use crate::child::{Failure, now};
use crate::net::duplex::Carrier;
use crate::net::pattern;

/// The largest block and the most repeats that a receiver agrees to.
pub const MOST_BYTES: usize = 64 << 20;
const MOST_REPEATS: u64 = 10_000_000;
/// Fewest repeats of a size.
const FEWEST: u64 = 3;
/// Blocks to and fro before the first size, from which its repeats are estimated; carried pipes are hot after them.
const FIRST: u64 = 200;
/// A block that takes so long is the last, as in the original (1 s).
const STOP_NS: f64 = 1e9;

const STREAM: u64 = 1;
const CHECK: u64 = 2;

/// What is asked of the receiver. Size 0: no more.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Order {
    size: usize,
    repeats: u64,
    stream: bool,
    check: bool,
}

impl Order {
    const END: Order = Order {
        size: 0,
        repeats: 0,
        stream: false,
        check: false,
    };

    fn words(self) -> [u64; 3] {
        let how = u64::from(self.stream) * STREAM + u64::from(self.check) * CHECK;
        [self.size as u64, self.repeats, how]
    }

    fn of([size, repeats, how]: [u64; 3]) -> Option<Order> {
        let size = usize::try_from(size).ok().filter(|&s| s <= MOST_BYTES)?;
        (repeats <= MOST_REPEATS && how <= STREAM + CHECK).then_some(Order {
            size,
            repeats,
            stream: how & STREAM != 0,
            check: how & CHECK != 0,
        })
    }
}

fn nonsense() -> Failure {
    Failure::Said(
        "the other side asks for what NetPIPE has no name for; are both `byway bench` of one version?".into(),
    )
}

fn changed(size: usize) -> Failure {
    Failure::Said(format!(
        "a block of {size} bytes came back changed: what carries it is broken"
    ))
}

/// Measures `sizes` in turn: ns of a block of each; fewer if a block takes a second.
///
/// # Errors
/// The link's, or what came was not what was sent.
pub fn transmit(d: &impl Carrier, sizes: &[usize], o: &Options) -> Result<Vec<f64>, Failure> {
    let most = sizes.iter().copied().max().unwrap_or(0);
    let mut buf = vec![0xa5; most];
    let order = |size, repeats, stream| Order {
        size,
        repeats,
        stream,
        check: o.check,
    };
    let first = sizes.first().copied().unwrap_or(0);
    let mut last = (
        first,
        block(d, &mut buf[..first], order(first, FIRST, false))?,
    );
    let mut times = vec![];
    for &size in sizes {
        let n = repeats(o, last, size);
        let ns = block(d, &mut buf[..size], order(size, n, o.stream))?;
        times.push(ns);
        last = (size, ns);
        if ns >= STOP_NS {
            break;
        }
    }
    d.say(&Order::END.words())?;
    Ok(times)
}

/// How often a block of `size` is sent, after one of `was` took `ns`.
fn repeats(o: &Options, (was, ns): (usize, f64), size: usize) -> u64 {
    if o.repeats > 0 {
        return o.repeats;
    }
    // Larger blocks take longer, by their bytes at most.
    let expected = ns * (size as f64 / was as f64).max(1.0);
    let ways = if o.stream { 1.0 } else { 2.0 };
    ((o.time.as_nanos() as f64 / (ways * expected.max(1.0))) as u64).clamp(FEWEST, MOST_REPEATS)
}

/// One size: ns of a block.
fn block(d: &impl Carrier, buf: &mut [u8], order: Order) -> Result<f64, Failure> {
    d.say(&order.words())?;
    if d.hear()? != order.words() {
        return Err(nonsense());
    }
    let size = buf.len() as u64;
    let began = now();
    if order.check {
        for i in 0..order.repeats {
            pattern::fill(buf, i * size);
            d.put(buf)?;
            if !order.stream {
                buf.fill(0);
                d.take(buf)?;
                if !pattern::is(buf, i * size) {
                    return Err(changed(buf.len()));
                }
            }
        }
    } else if order.stream {
        for _ in 0..order.repeats {
            d.put(buf)?;
        }
    } else {
        for _ in 0..order.repeats {
            d.put(buf)?;
            d.take(buf)?;
        }
    }
    let ns = if order.stream {
        d.hear::<1>()?[0] as f64
    } else {
        (now() - began) as f64 / 2.0
    };
    // The original protects itself in the same way from times that its clock cannot tell.
    Ok((ns / order.repeats as f64).max(1.0))
}

/// The other side, until it is told that there is no more.
///
/// # Errors
/// The link's, or it was asked for what cannot be.
pub fn receive(d: &impl Carrier) -> Result<(), Failure> {
    let mut buf = vec![];
    loop {
        let order = Order::of(d.hear()?).ok_or_else(nonsense)?;
        if order.size == 0 {
            return Ok(());
        }
        // Touched before the transmitter's clock runs.
        buf.resize(order.size, 0);
        d.say(&order.words())?;
        let began = now();
        answer(d, &mut buf, order)?;
        if order.stream {
            d.say(&[now() - began])?;
        }
    }
}

fn answer(d: &impl Carrier, buf: &mut [u8], order: Order) -> Result<(), Failure> {
    for i in 0..order.repeats {
        d.take(buf)?;
        if order.check && !pattern::is(buf, i * buf.len() as u64) {
            return Err(changed(buf.len()));
        }
        if !order.stream {
            d.put(buf)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::duplex::Links;
    use crate::pairs::link::Kind;
    use std::time::Duration;

    #[test]
    fn orders_are_bounded() {
        let good = Order {
            size: 1 << 20,
            repeats: 7,
            stream: true,
            check: false,
        };
        assert!(Order::of(good.words()) == Some(good));
        let most = MOST_BYTES as u64;
        for bad in [
            [most + 1, 1, 0],
            [u64::MAX, 1, 0],
            [1, MOST_REPEATS + 1, 0],
            [1, 1, 4],
        ] {
            assert!(Order::of(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn repeats_fill_the_time() {
        let mut o = Options::usual(true);
        o.time = Duration::from_millis(10);
        assert_eq!(repeats(&o, (1000, 500.0), 1000), 10_000);
        assert_eq!(repeats(&o, (1000, 500.0), 2000), 5_000);
        assert_eq!(repeats(&o, (1000, 5e9), 1000), FEWEST);
        o.stream = true;
        assert_eq!(repeats(&o, (1000, 500.0), 1000), 20_000);
        o.repeats = 9;
        assert_eq!(repeats(&o, (1000, 500.0), 1000), 9);
    }

    #[test]
    fn a_receiver_refuses_nonsense() {
        let l = Links::new(Kind::Pipe, 1).unwrap();
        l.side(0).say(&[u64::MAX, 1, 0]).unwrap();
        let e = receive(&l.side(1)).unwrap_err();
        assert!(e.to_string().contains("version"), "{e}");
    }

    #[test]
    fn a_block_that_changes_is_found() {
        for stream in [false, true] {
            let l = Links::new(Kind::Socket, 1).unwrap();
            let order = Order {
                size: 100,
                repeats: 1,
                stream,
                check: true,
            };
            let mut bytes = vec![0; 100];
            pattern::fill(&mut bytes, 1);
            l.side(0).say(&order.words()).unwrap();
            l.side(0).put(&bytes).unwrap();
            let e = receive(&l.side(1)).unwrap_err();
            assert!(e.to_string().contains("changed"), "{e}");
        }
    }
}

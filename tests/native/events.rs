//! What an event queue tells, state by state. Each body runs on a pipe and a FIFO of this library's, and on the
//! kernel's, which are what is right.
use crate::ends::{Named, each};
use crate::peer::close;
use byway::events::{Change, Event, Filter, Flags, Queue};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::Duration;

/// The one event that there is now, or none.
pub fn now(q: &Queue) -> Option<Event> {
    let mut all = [Event::default(); 4];
    let n = q.wait(&mut all, Some(Duration::ZERO)).unwrap();
    assert!(n < 2, "{all:?}");
    (n == 1).then_some(all[0])
}

/// The next one, whenever it comes.
pub fn next(q: &Queue) -> Event {
    let mut one = [Event::default()];
    assert_eq!(q.wait(&mut one, None).unwrap(), 1);
    one[0]
}

/// None comes for a while.
fn quiet(q: &Queue) {
    let mut all = [Event::default(); 4];
    let n = q.wait(&mut all, Some(Duration::from_millis(40))).unwrap();
    assert_eq!(n, 0, "{all:?}");
}

fn told(e: Option<Event>) -> Option<(i64, bool)> {
    e.map(|e| (e.data, e.flags.has(Flags::EOF)))
}

#[test]
fn readable_with_the_count() {
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(r.change().udata(9)).unwrap();
        assert_eq!(now(&q), None);
        assert_eq!(w.write(5).unwrap(), 5);
        let e = next(&q);
        assert_eq!((e.ident, e.filter, e.udata), (r.ident(), Filter::Read, 9));
        assert_eq!(e.data, 5);
        // Level-triggered: told again as long as it is so.
        assert_eq!(w.write(3).unwrap(), 3);
        assert_eq!(told(now(&q)), Some((8, false)));
        assert_eq!(r.read(2), Some(2));
        assert_eq!(told(now(&q)), Some((6, false)));
        assert_eq!(r.read(100), Some(6));
        quiet(&q);
        assert_eq!(w.write(60_000).unwrap(), 60_000);
        assert_eq!(told(now(&q)), Some((60_000, false)));
    });
}

#[test]
fn writable_with_the_room() {
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(w.change()).unwrap();
        let e = now(&q).unwrap();
        assert_eq!((e.filter, e.flags), (Filter::Write, Flags::default()));
        assert!(e.data >= 4096, "{e:?}");
        let all = w.fill();
        assert_eq!(now(&q), None);
        let mut left = all;
        // All but what two pages hold.
        while left > 8192 {
            left -= r.read(left - 8192).unwrap();
        }
        let e = next(&q);
        assert!(e.data >= 4096, "{e:?}");
        assert!(w.write(4096).is_ok());
    });
}

#[test]
fn full_without_having_been_refused() {
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        // Until the queue, and not an attempt, says that there is no room.
        q.apply(w.change()).unwrap();
        let mut all = 0;
        while now(&q).is_some() {
            all += w.write(4096).unwrap();
        }
        while all > 0 {
            all -= r.read(100_000).unwrap();
        }
        assert!(next(&q).data >= 4096);
    });
}

#[test]
fn the_end_with_what_is_still_to_read() {
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(r.change()).unwrap();
        assert_eq!(now(&q), None);
        w.write(5).unwrap();
        close(w);
        assert_eq!(told(Some(next(&q))), Some((5, true)));
        assert_eq!(r.read(3), Some(3));
        assert_eq!(told(now(&q)), Some((2, true)));
        assert_eq!(r.read(3), Some(2));
        assert_eq!(told(now(&q)), Some((0, true)));
        assert_eq!(r.read(3), Some(0));
        assert_eq!(told(now(&q)), Some((0, true)));
    });
}

#[test]
fn nobody_reads_any_more() {
    each(|r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(w.change()).unwrap();
        assert_eq!(now(&q).map(|e| e.flags.has(Flags::EOF)), Some(false));
        close(r);
        assert_eq!(now(&q).map(|e| e.flags.has(Flags::EOF)), Some(true));
        assert_eq!(w.write(1).unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// PR 76525, 76144, 94772 of the seed: an end is closed while the other one is waited for.
#[test]
fn closed_while_somebody_waits() {
    each(|mut r, w| {
        let q = Queue::new().unwrap();
        q.apply(r.change()).unwrap();
        std::thread::scope(|s| {
            let t = s.spawn(|| next(&q));
            std::thread::sleep(Duration::from_millis(30));
            close(w);
            assert_eq!(told(Some(t.join().unwrap())), Some((0, true)));
        });
    });
    each(|r, mut w| {
        let q = Queue::new().unwrap();
        w.fill();
        q.apply(w.change()).unwrap();
        std::thread::scope(|s| {
            let t = s.spawn(|| next(&q));
            std::thread::sleep(Duration::from_millis(30));
            close(r);
            assert!(t.join().unwrap().flags.has(Flags::EOF));
        });
    });
}

#[test]
fn clear_tells_of_changes() {
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(r.change().flags(Flags::CLEAR)).unwrap();
        quiet(&q);
        w.write(5).unwrap();
        assert_eq!(told(Some(next(&q))), Some((5, false)));
        quiet(&q);
        // More bytes are a change, also with some unread.
        w.write(3).unwrap();
        assert_eq!(told(Some(next(&q))), Some((8, false)));
        quiet(&q);
        assert_eq!(r.read(4), Some(4));
        w.write(2).unwrap();
        assert_eq!(told(Some(next(&q))), Some((6, false)));
        assert_eq!(r.read(100), Some(6));
        assert_eq!(r.read(100), None);
        quiet(&q);
        w.write(1).unwrap();
        assert_eq!(told(Some(next(&q))), Some((1, false)));
        close(w);
        assert_eq!(told(Some(next(&q))), Some((1, true)));
        quiet(&q);
    });
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(w.change().flags(Flags::CLEAR)).unwrap();
        assert!(next(&q).data >= 4096);
        quiet(&q);
        let mut all = w.fill();
        quiet(&q);
        while all > 0 {
            all -= r.read(100_000).unwrap();
        }
        assert!(next(&q).data >= 4096);
    });
}

/// The same while another thread waits, which nobody wakes by a call on the queue.
#[test]
fn clear_tells_a_thread_that_waits() {
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(r.change().flags(Flags::CLEAR)).unwrap();
        std::thread::scope(|s| {
            let t = s.spawn(|| [next(&q).data, next(&q).data, next(&q).data]);
            for pause in [0, 60, 60] {
                std::thread::sleep(Duration::from_millis(pause));
                w.write(10).unwrap();
            }
            // They may be told together, if the thread was late.
            std::thread::sleep(Duration::from_millis(100));
            while !t.is_finished() {
                w.write(10).unwrap();
                std::thread::sleep(Duration::from_millis(50));
            }
            let told = t.join().unwrap();
            assert!(told.is_sorted() && told[2] > told[0], "{told:?}");
        });
    });
}

#[test]
fn one_shot_and_dispatch() {
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(r.change().flags(Flags::ONESHOT)).unwrap();
        w.write(5).unwrap();
        assert!(now(&q).unwrap().flags.has(Flags::ONESHOT));
        quiet(&q);
        let gone = Change::entry(r.ident(), Filter::Read, Flags::ENABLE);
        assert_eq!(q.apply(gone).unwrap_err().kind(), ErrorKind::NotFound);
        // The end can be watched anew.
        q.apply(r.change().flags(Flags::DISPATCH).udata(3)).unwrap();
        assert_eq!(now(&q).map(|e| (e.data, e.udata)), Some((5, 3)));
        w.write(1).unwrap();
        quiet(&q);
        let again = || Change::entry(r.ident(), Filter::Read, Flags::ENABLE);
        q.apply(again()).unwrap();
        assert_eq!(told(now(&q)), Some((6, false)));
        assert_eq!(now(&q), None);
        q.apply(again()).unwrap();
        q.apply(Change::entry(r.ident(), Filter::Read, Flags::DISABLE))
            .unwrap();
        quiet(&q);
        q.apply(Change::entry(r.ident(), Filter::Read, Flags::DELETE))
            .unwrap();
        q.apply(r.change().flags(Flags::DISABLE)).unwrap();
        quiet(&q);
    });
}

/// PR 116770 of the seed: a FIFO that nobody has opened for writing yet has not come to its end.
#[test]
fn a_fifo_before_and_after_its_writers() {
    for native in [false, true] {
        let f = Named::new(native);
        let mut r = f.reader();
        let q = Queue::new().unwrap();
        q.apply(r.change()).unwrap();
        quiet(&q);
        let mut w = f.writer();
        quiet(&q);
        w.write(2).unwrap();
        assert_eq!(told(now(&q)), Some((2, false)));
        close(w);
        assert_eq!(told(Some(next(&q))), Some((2, true)));
        assert_eq!(r.read(10), Some(2));
        assert_eq!(told(now(&q)), Some((0, true)));
        // A new writer: the end is no more.
        let mut w = f.writer();
        quiet(&q);
        w.write(3).unwrap();
        assert_eq!(told(Some(next(&q))), Some((3, false)));
        assert_eq!(r.read(10), Some(3));
        quiet(&q);
    }
}

#[test]
fn user_events() {
    let q = Queue::new().unwrap();
    q.apply(Change::user(1).flags(Flags::CLEAR).udata(11))
        .unwrap();
    q.apply(Change::user(2)).unwrap();
    assert_eq!(now(&q), None);
    std::thread::scope(|s| {
        let t = s.spawn(|| next(&q));
        std::thread::sleep(Duration::from_millis(20));
        q.trigger(1, 42).unwrap();
        let e = t.join().unwrap();
        assert_eq!((e.ident, e.filter), (1, Filter::User));
        assert_eq!((e.data, e.udata), (42, 11));
    });
    assert_eq!(now(&q), None);
    // Without CLEAR it stays triggered.
    q.trigger(2, -1).unwrap();
    for _ in 0..3 {
        assert_eq!(now(&q).map(|e| e.data), Some(-1));
    }
    q.apply(Change::entry(2, Filter::User, Flags::DELETE))
        .unwrap();
    assert_eq!(now(&q), None);
    assert_eq!(q.trigger(2, 0).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn timers() {
    let q = Queue::new().unwrap();
    let ms = Duration::from_millis;
    q.apply(Change::timer(5, ms(3)).udata(1)).unwrap();
    std::thread::sleep(ms(20));
    let e = next(&q);
    assert_eq!((e.ident, e.filter, e.udata), (5, Filter::Timer, 1));
    assert!(e.data >= 6, "{e:?}");
    // Again and again.
    assert!(next(&q).data >= 1);
    q.apply(Change::entry(5, Filter::Timer, Flags::DISABLE))
        .unwrap();
    quiet(&q);
    // It has gone on meanwhile.
    q.apply(Change::entry(5, Filter::Timer, Flags::ENABLE))
        .unwrap();
    assert!(next(&q).data >= 10);
    // Once, and gone; a new time for one that is there.
    q.apply(Change::timer(5, ms(10)).flags(Flags::ONESHOT))
        .unwrap();
    assert_eq!(next(&q).data, 1);
    quiet(&q);
    let gone = Change::entry(5, Filter::Timer, Flags::ENABLE);
    assert_eq!(q.apply(gone).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Changes that fail are events, as with kevent(2).
#[test]
fn errors_are_events() {
    let q = Queue::new().unwrap();
    let (mut r, _w) = byway::pipe().unwrap();
    let file = File::open("/proc/self/exe").unwrap();
    let (native, other) = (r.try_clone().unwrap(), Queue::new().unwrap());
    other.apply(Change::read(&mut r)).unwrap();
    let changes = [
        Change::user(1).udata(1),
        Change::entry(77, Filter::User, Flags::ENABLE).udata(2),
        Change::read(file.as_fd()).udata(3),
        Change::read(native.as_fd()).udata(4),
        Change::read(&mut r).udata(5),
        Change::timer(6, Duration::from_secs(1)),
    ];
    let mut events = [Event::default(); 8];
    let n = q.kevent(changes, &mut events, None).unwrap();
    let found: Vec<_> = events[..n]
        .iter()
        .map(|e| (e.udata, e.data as i32))
        .collect();
    let wanted = [
        (2, libc::ENOENT),
        (3, libc::EPERM),
        (4, libc::EINVAL),
        (5, libc::EEXIST),
    ];
    assert_eq!(found, wanted);
    assert!(events[..n].iter().all(|e| e.flags == Flags::ERROR));
    // Without room for events the first one is the call's.
    let e = q.kevent(
        [Change::entry(77, Filter::User, Flags::ENABLE)],
        &mut [],
        None,
    );
    assert_eq!(e.unwrap_err().kind(), ErrorKind::NotFound);
    // The changes before and after it were made.
    q.trigger(1, 0).unwrap();
    q.apply(Change::entry(6, Filter::Timer, Flags::DELETE))
        .unwrap();
}

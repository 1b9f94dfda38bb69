//! What the screen of `byway top` shows: the last look, rates, the order, the filter, the chosen channel; and what keys do.
//!
//! Invariant: no key and no look leaves a chosen row that is not there. Nothing here knows the terminal.
//! Not here: how it is drawn (draw.rs), where keys come from (screen.rs).
use super::look::{Flow, Shared};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// What tells one channel from another: its kind and inode.
type Key = (&'static str, u64);

/// By what the channels are in order, the most first; names from A to Z.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Rate,
    Carried,
    Kernel,
    Full,
    Name,
}

impl Order {
    const ALL: [Order; 5] = [
        Order::Rate,
        Order::Carried,
        Order::Kernel,
        Order::Full,
        Order::Name,
    ];

    pub fn name(self) -> &'static str {
        ["rate", "carried", "kernel", "full", "name"][self as usize]
    }

    fn next(self) -> Order {
        Order::ALL[(self as usize + 1) % Order::ALL.len()]
    }
}

/// What the screen has to do after a key.
#[derive(PartialEq, Eq, Debug)]
pub enum Then {
    Draw,
    Quit,
    Suspend,
}

pub struct State {
    pub seen: Vec<Shared>,
    /// Bytes of each channel at the last look, and when that was.
    before: HashMap<Key, u64>,
    looked: Option<Instant>,
    rates: HashMap<Key, u64>,
    pub order: Order,
    pub filter: String,
    /// The keys go to the filter.
    pub is_typing: bool,
    pub is_paused: bool,
    /// One channel alone, with all that is known of it.
    pub is_detail: bool,
    chosen: Option<Key>,
}

impl State {
    pub fn new() -> State {
        State {
            seen: vec![],
            before: HashMap::new(),
            looked: None,
            rates: HashMap::new(),
            order: Order::Rate,
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            is_detail: false,
            chosen: None,
        }
    }

    /// Takes a look that was made at `now`.
    pub fn take(&mut self, seen: Vec<Shared>, now: Instant) {
        let flows = || seen.iter().flat_map(|s| &s.channels);
        let time = self.looked.map(|before| now.duration_since(before));
        self.rates = flows()
            .filter_map(|f| {
                let (time, before) = (time?, self.before.get(&key(f))?);
                Some((key(f), rate(bytes(f).saturating_sub(*before), time)))
            })
            .collect();
        self.before = flows().map(|f| (key(f), bytes(f))).collect();
        self.looked = Some(now);
        self.seen = seen;
        if self.chosen().is_none() {
            self.is_detail = false;
        }
    }

    /// Bytes a second of a channel since the look before; none at its first look.
    pub fn rate(&self, f: &Flow) -> Option<u64> {
        self.rates.get(&key(f)).copied()
    }

    /// The channels that pass the filter, in order.
    pub fn rows(&self) -> Vec<&Flow> {
        let wanted = self.filter.to_lowercase();
        let passes = |f: &&Flow| {
            let why = f.why.as_deref().unwrap_or("");
            let text = format!("{} {} {} {why}", f.kind, f.ends(), f.mode);
            text.to_lowercase().contains(&wanted)
        };
        let all = self.seen.iter().flat_map(|s| &s.channels);
        let mut rows: Vec<_> = all.filter(passes).collect();
        match self.order {
            Order::Rate => rows.sort_by_key(|f| Reverse((self.rate(f), bytes(f)))),
            Order::Carried => rows.sort_by_key(|f| Reverse(f.carried_bytes)),
            Order::Kernel => rows.sort_by_key(|f| Reverse(f.kernel_bytes)),
            Order::Full => rows.sort_by_key(|f| Reverse(f.percent_full())),
            Order::Name => rows.sort_by_key(|f| f.ends()),
        }
        rows
    }

    /// The number of the chosen row: the first one where the channel that was chosen is not shown.
    pub fn at(&self) -> Option<usize> {
        let rows = self.rows();
        let found = rows.iter().position(|f| Some(key(f)) == self.chosen);
        found.or((!rows.is_empty()).then_some(0))
    }

    /// The chosen channel, as long as it is open.
    pub fn chosen(&self) -> Option<&Flow> {
        let mut all = self.seen.iter().flat_map(|s| &s.channels);
        all.find(|f| Some(key(f)) == self.chosen)
    }

    /// Chooses the row `step` below the chosen one, or the last that there is.
    fn step(&mut self, step: isize) {
        let rows = self.rows();
        if let Some(at) = self.at() {
            let to = at.saturating_add_signed(step).min(rows.len() - 1);
            self.chosen = Some(key(rows[to]));
        }
    }

    pub fn press(&mut self, k: KeyEvent) -> Then {
        if k.modifiers.contains(KeyModifiers::CONTROL) {
            return match k.code {
                KeyCode::Char('c') => Then::Quit,
                KeyCode::Char('z') => Then::Suspend,
                _ => Then::Draw,
            };
        }
        if self.is_typing {
            self.type_in(k.code);
            return Then::Draw;
        }
        match k.code {
            KeyCode::Char('q') => return Then::Quit,
            KeyCode::Esc if self.is_detail => self.is_detail = false,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char('/') => (self.is_typing, self.is_detail) = (true, false),
            KeyCode::Char(' ' | 'p') => self.is_paused = !self.is_paused,
            KeyCode::Enter => {
                self.step(0);
                self.is_detail = !self.is_detail && self.chosen().is_some();
            }
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(10),
            KeyCode::PageUp => self.step(-10),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            _ => {}
        }
        Then::Draw
    }

    fn type_in(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
    }
}

fn key(f: &Flow) -> Key {
    (f.kind, f.inode)
}

fn bytes(f: &Flow) -> u64 {
    f.carried_bytes.saturating_add(f.kernel_bytes)
}

fn rate(bytes: u64, time: Duration) -> u64 {
    (bytes as f64 / time.as_secs_f64().max(0.001)) as u64
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::top::look::Running;
    use crate::top::look::tests::flow;

    /// A channel of this number, which has carried so much.
    fn channel(inode: u64, name: &str, carried: u64) -> Flow {
        Flow {
            kind: "pipe",
            inode,
            carried_bytes: carried,
            kernel_bytes: 10,
            kernel_bytes_exact: true,
            ring_bytes: Some(100),
            why: None,
            ..flow(name, Some(carried % 100))
        }
    }

    pub fn seen(channels: Vec<Flow>) -> Vec<Shared> {
        vec![Shared {
            runs: vec![Running {
                pid: 4711,
                command: "sh -c 'make test'".into(),
            }],
            taken_bytes: 1 << 20,
            limit_bytes: 128 << 20,
            channels,
        }]
    }

    /// Two looks, two seconds apart.
    pub fn looked() -> State {
        let mut s = State::new();
        let start = Instant::now();
        let three = |a, b, c| {
            seen(vec![
                channel(1, "bzip2", a),
                channel(2, "awk", b),
                channel(3, "cat", c),
            ])
        };
        s.take(three(1000, 50_000, 30), start);
        s.take(three(9000, 52_000, 90), start + Duration::from_secs(2));
        s
    }

    fn names(s: &State) -> String {
        let names: Vec<_> = s.rows().iter().map(|f| f.writer.clone()).collect();
        names.join(" ")
    }

    fn press(s: &mut State, keys: &str) -> Then {
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            '<' => KeyCode::Backspace,
            'J' => KeyCode::End,
            'K' => KeyCode::Home,
            c => KeyCode::Char(c),
        };
        let each = keys.chars().map(|c| KeyEvent::from(code(c)));
        each.fold(Then::Draw, |_, k| s.press(k))
    }

    #[test]
    fn rates_and_orders() {
        let mut s = looked();
        assert_eq!(s.rate(s.rows()[0]), Some(4000));
        let mut orders = vec![];
        for _ in 0..5 {
            orders.push(format!("{}: {}", s.order.name(), names(&s)));
            press(&mut s, "s");
        }
        assert_eq!(
            orders,
            [
                "rate: bzip2 awk cat",
                "carried: awk bzip2 cat",
                "kernel: bzip2 awk cat",
                "full: cat bzip2 awk",
                "name: awk bzip2 cat",
            ]
        );
        assert_eq!(s.order, Order::Rate);
    }

    #[test]
    fn a_filter_is_typed() {
        let mut s = looked();
        assert_eq!(press(&mut s, "/qx"), Then::Draw, "q is a letter there");
        assert_eq!((names(&s).as_str(), s.at()), ("", None));
        press(&mut s, "<<AW\n");
        assert_eq!(names(&s), "awk");
        press(&mut s, "\x1b");
        assert_eq!(names(&s), "bzip2 awk cat");
    }

    #[test]
    fn the_chosen_one_stays_chosen() {
        let mut s = looked();
        assert_eq!(s.at(), Some(0));
        press(&mut s, "j");
        assert_eq!(s.chosen().unwrap().writer, "awk");
        press(&mut s, "s");
        assert_eq!(s.at(), Some(0), "now the first");
        press(&mut s, "J");
        assert_eq!(s.at(), Some(2));
        press(&mut s, "jK\n");
        assert!(s.is_detail && s.chosen().unwrap().writer == "awk");
        s.take(seen(vec![channel(1, "bzip2", 0)]), Instant::now());
        assert!(!s.is_detail && s.at() == Some(0), "it was closed");
        s.take(vec![], Instant::now());
        press(&mut s, "jk\n");
        assert!(!s.is_detail && s.at().is_none());
    }

    #[test]
    fn keys_that_end_or_stop_it() {
        let mut s = looked();
        assert_eq!(press(&mut s, "q"), Then::Quit);
        let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!(s.press(control('c')), Then::Quit);
        assert_eq!(s.press(control('z')), Then::Suspend);
        press(&mut s, " ");
        assert!(s.is_paused);
    }
}

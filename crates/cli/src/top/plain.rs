//! A look as text, for a file or a terminal that has no screen.
//!
//! Invariant: a line has 80 columns at most.
//! Not here: the screen (draw.rs), what a look is (look.rs).
use super::look::{Running, Shared};

/// Columns of a line.
const COLUMNS: usize = 80;

/// A domain's part of the text.
pub fn lines(s: &Shared) -> Vec<String> {
    let mut lines: Vec<_> = s.runs.iter().map(Running::line).collect();
    lines.push(s.summary());
    if !s.channels.is_empty() {
        lines.push(columns(
            ["carried", "kernel", "ring", "full", "rd", "wr"],
            "pipe",
        ));
    }
    for f in &s.channels {
        let figures = f.figures();
        lines.push(columns(figures.each_ref().map(String::as_str), &f.ends()));
        if let Some(why) = &f.why {
            lines.push(format!("{:36}{why}", ""));
        }
    }
    lines.push(String::new());
    lines.into_iter().map(|l| cut(&l) + "\n").collect()
}

fn columns([carried, kernel, ring, full, readers, writers]: [&str; 6], ends: &str) -> String {
    format!("{carried:>7} {kernel:>7} {ring:>6} {full:>5} {readers:>2} {writers:>2}  {ends}")
}

/// A line of as many columns as there are.
fn cut(line: &str) -> String {
    match line.chars().count() > COLUMNS {
        true => line.chars().take(COLUMNS - 2).chain("..".chars()).collect(),
        false => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::look::tests::flow;

    #[test]
    fn lines_fit_and_say_how_full_a_ring_is() {
        let shared = Shared {
            runs: vec![Running {
                pid: 4_194_304,
                command: "long ".repeat(30),
            }],
            taken_bytes: usize::MAX,
            limit_bytes: usize::MAX,
            channels: vec![
                flow("fifteen-letters + others", Some(2 << 20)),
                flow("é".repeat(40).as_str(), None),
            ],
        };
        let lines = lines(&shared);
        assert!(
            lines.iter().all(|l| l.trim_end().chars().count() <= 80),
            "{lines:?}"
        );
        assert!(lines[0].ends_with("..\n"));
        assert!(
            lines[3].contains(" 25% ") && lines[3].contains(" >15E "),
            "{}",
            lines[3]
        );
        assert!(lines[3].contains("socket: fifteen-letters"));
        assert!(lines[5].contains("      -     -  7  -  "), "{}", lines[5]);
    }
}

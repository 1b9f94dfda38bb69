//! The screen of `byway top`: runs, channels, or one channel with all that is known of it; from 80 columns and 24 lines on.
//!
//! Invariant: what is drawn depends on the state and the size alone. It has no colours, so that each terminal shows it.
//! Not here: the state (state.rs), the terminal (screen.rs).
use super::look::{Flow, Running};
use super::state::State;
use crate::stat::size;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState, Wrap};

/// A smaller terminal is only told of.
const LEAST: (u16, u16) = (60, 10);
/// From so many columns on the reason has a column of its own.
const WIDE: u16 = 120;
/// Lines that runs may take.
const RUNS: usize = 4;

pub fn draw(frame: &mut Frame, state: &State) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let text = format!("byway top wants {} columns and {} lines", LEAST.0, LEAST.1);
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let runs = runs(state);
    let parts = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(runs.len() as u16),
        Constraint::Min(3),
        Constraint::Length(1),
    ]);
    let [head, list, body, foot] = parts.areas(area);
    let reversed = Style::new().add_modifier(Modifier::REVERSED);
    frame.render_widget(Line::from(title(state)).style(reversed), head);
    frame.render_widget(Text::from(runs), list);
    match state.chosen().filter(|_| state.is_detail) {
        Some(f) => detail(frame, state, f, body),
        None => table(frame, state, body),
    }
    frame.render_widget(Line::from(keys(state)).style(reversed), foot);
}

fn title(state: &State) -> String {
    let runs: usize = state.seen.iter().map(|s| s.runs.len()).sum();
    let all: usize = state.seen.iter().map(|s| s.channels.len()).sum();
    let mut text = format!(
        "byway top: {runs} {}, {all} open, by {}",
        if runs == 1 { "run" } else { "runs" },
        state.order.name()
    );
    if !state.filter.is_empty() {
        text += &format!(", {} with \"{}\"", state.rows().len(), state.filter);
    }
    if state.is_paused {
        text += ", PAUSED";
    }
    text
}

/// A line for each run, and for the memory of those that share it.
fn runs(state: &State) -> Vec<Line<'static>> {
    if state.seen.is_empty() {
        return vec![Line::from(
            "no run of yours is alive; start one with `byway run -- CMD`",
        )];
    }
    let each = state.seen.iter().flat_map(|s| {
        let runs = s.runs.iter().map(Running::line);
        runs.chain([format!("  {}", s.summary())])
    });
    let mut lines: Vec<_> = each.collect();
    if lines.len() > RUNS {
        let more = lines.len() + 1 - RUNS;
        lines.truncate(RUNS - 1);
        lines.push(format!("  and {more} lines more: `byway top --once`"));
    }
    lines.into_iter().map(Line::from).collect()
}

fn keys(state: &State) -> String {
    match (state.is_typing, state.is_detail) {
        (true, _) => format!("/{}_   Enter: keep  Esc: show all", state.filter),
        (_, true) => "Enter, Esc: back  up, down: another  space: pause  q: quit".into(),
        _ => {
            "up, down: choose  Enter: one alone  s: order  /: filter  space: pause  q: quit".into()
        }
    }
}

/// Bytes a second, as the tables have it.
fn rate(state: &State, f: &Flow) -> String {
    state.rate(f).map_or("-".into(), |n| size(n as usize))
}

fn table(frame: &mut Frame, state: &State, area: Rect) {
    let is_wide = area.width >= WIDE;
    let right = |text: String| Cell::from(Line::from(text).right_aligned());
    let names = ["per sec", "carried", "kernel", "ring", "full", "rd", "wr"];
    let names = names.map(|name| right(name.into()));
    let last = [Cell::from("pipe"), Cell::from("why not all")];
    let last = last.into_iter().take(1 + usize::from(is_wide));
    let head = Row::new(names.into_iter().chain(last));
    let rows = state.rows();
    let each = rows.iter().map(|f| {
        let figures = [rate(state, f)].into_iter().chain(f.figures());
        let why = f.why.clone().unwrap_or_default();
        let (mut ends, mut lines) = (vec![Line::from(f.ends())], 1);
        if !is_wide && !why.is_empty() {
            let dim = Style::new().add_modifier(Modifier::DIM);
            ends.push(Line::from(format!(" {why}")).style(dim));
            lines = 2;
        }
        let mut cells: Vec<_> = figures.map(right).collect();
        cells.push(Cell::from(Text::from(ends)));
        if is_wide {
            cells.push(Cell::from(why));
        }
        Row::new(cells).height(lines)
    });
    let figures = [7, 7, 7, 5, 4, 2, 2].map(Constraint::Length);
    let last = [Constraint::Fill(1), Constraint::Fill(1)];
    let last = last.into_iter().take(1 + usize::from(is_wide));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let table = Table::new(each, figures.into_iter().chain(last))
        .header(head.style(bold))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut at = TableState::default().with_selected(state.at());
    frame.render_stateful_widget(table, area, &mut at);
}

/// All that is known of one channel.
fn detail(frame: &mut Frame, state: &State, f: &Flow, area: Rect) {
    let or = |n: Option<u64>, none: &str| n.map_or(none.into(), |n| n.to_string());
    let processes: Vec<_> = f.processes.iter().map(u32::to_string).collect();
    let exact = if f.kernel_bytes_exact {
        ""
    } else {
        "at least "
    };
    let lines = [
        ("ends", f.ends()),
        (
            "what",
            format!("{}, inode {}, of run {}", f.kind, f.inode, f.run),
        ),
        ("processes", processes.join(" ")),
        ("now", f.mode.into()),
        ("why not all", f.why.clone().unwrap_or("-".into())),
        ("", String::new()),
        ("bytes a second", rate(state, f)),
        ("carried", format!("{} bytes", f.carried_bytes)),
        (
            "copied once",
            format!("{} bytes of these", f.one_copy_bytes),
        ),
        ("by the kernel", format!("{exact}{} bytes", f.kernel_bytes)),
        ("uncounted calls", f.uncounted_calls.to_string()),
        ("", String::new()),
        ("ring", or(f.ring_bytes, "none now")),
        ("unread in it", full(f)),
        ("readers asleep", or(f.readers_asleep, "not counted")),
        ("writers asleep", or(f.writers_asleep, "not counted")),
        (
            "waited for",
            format!(
                "{} polls, {} wake-ups, {} hand-backs",
                f.polls, f.wake_ups, f.hand_backs
            ),
        ),
    ];
    let lines = lines.map(|(name, value)| match name {
        "" => Line::default(),
        _ => Line::from(format!("{name:>15}  {value}")),
    });
    let text = Paragraph::new(Text::from_iter(lines)).wrap(Wrap { trim: false });
    frame.render_widget(text, area);
}

/// How much of the ring is unread, with a bar.
fn full(f: &Flow) -> String {
    let Some((percent, unread)) = f.percent_full().zip(f.unread_bytes) else {
        return "-".into();
    };
    let marks = (percent.min(100) / 5) as usize;
    format!("{unread}  [{:20}] {percent}%", "#".repeat(marks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::look::tests::flow;
    use crate::top::state::tests::{looked, seen};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};
    use std::time::Instant;

    fn drawn(state: &State, columns: u16, lines: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let cells = terminal.backend().buffer().content();
        let rows = cells.chunks(columns as usize);
        let text =
            |row: &[ratatui::buffer::Cell]| row.iter().map(|c| c.symbol()).collect::<String>();
        rows.map(|row| text(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn eighty_columns_and_twenty_four_lines() {
        let text = drawn(&looked(), 80, 24);
        assert_eq!(text[0], "byway top: 1 run, 3 open, by rate");
        assert_eq!(text[1], "run 4711: sh -c 'make test'");
        assert_eq!(
            text[2],
            "  1024K of 128M taken, 3 pipes, FIFOs and sockets' directions open"
        );
        assert_eq!(text[3], "per sec carried  kernel  ring full rd wr pipe");
        assert_eq!(
            text[4],
            "   4000    9000      10   100   0%  7  0 bzip2 -> bzip2"
        );
        assert!(text[23].ends_with("q: quit"), "{}", text[23]);
    }

    #[test]
    fn the_longest_figures_fit() {
        let mut state = State::new();
        let long = |inode| Flow {
            inode,
            writers_asleep: Some(8),
            ..flow("fifteen-letters + others", Some(8 << 20))
        };
        state.take(seen((0..30).map(long).collect()), Instant::now());
        let text = drawn(&state, 80, 24);
        assert_eq!(
            text[4],
            "      -     15E    >15E 8192K 100%  7  8 socket: fifteen-letters + others -> fif"
        );
        assert!(
            text[5].contains(" nobody could watch who opens it (fs.in"),
            "{}",
            text[5]
        );
        let wide = drawn(&state, 160, 40);
        assert!(wide[3].contains("why not all") && wide[4].contains("who opens it"));
        state.press(KeyEvent::from(KeyCode::End));
        assert!(drawn(&state, 80, 24)[21].contains(" nobody could watch"));
    }

    #[test]
    fn one_channel_alone() {
        let mut state = looked();
        state.press(KeyEvent::from(KeyCode::Enter));
        let text = drawn(&state, 80, 24).join("\n");
        for part in [
            "           ends  bzip2 -> bzip2",
            "pipe, inode 1, of run 1",
            "        carried  9000 bytes",
            "bytes a second  4000",
            "  by the kernel  10 bytes",
            "Esc: back",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    #[test]
    fn nothing_and_little_room() {
        assert!(drawn(&State::new(), 80, 24)[1].starts_with("no run of yours"));
        assert!(drawn(&looked(), 40, 5)[0].starts_with("byway top wants"));
    }
}

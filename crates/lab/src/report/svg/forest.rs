//! The rows of the summary as one picture, a forest plot: a dot and its interval in each row, on one logarithmic axis.
//!
//! Invariant: a verdict is told by shape and stroke as well as by colour; nothing is drawn outside of the picture, and no two
//! texts lie on each other. The page's style may change the colours, by class; a file has those that stand here.
//! Not here: what a row says (summary.rs).
use super::super::plot::Axis;
use super::super::short;
use super::super::summary::{Row, Verdict};
use super::super::tables::escaped;
use super::Scale;
use crate::record::Clear;
use std::fmt::Write;

/// How wide the picture is, and what has room in it.
#[derive(Clone, Copy, PartialEq)]
pub enum Shape {
    /// With every figure in its row.
    Desk,
    /// For a phone: names and drawing alone.
    Phone,
}

/// Where things stand, in units of the picture.
struct Frame {
    width: f64,
    /// Where names end, and the drawing begins and ends.
    names: f64,
    left: f64,
    right: f64,
    /// Of a row.
    high: f64,
    letters: f64,
}

const DESK: Frame = Frame {
    width: 1100.0,
    names: 180.0,
    left: 194.0,
    right: 730.0,
    high: 20.0,
    letters: 13.0,
};
const PHONE: Frame = Frame {
    width: 360.0,
    names: 124.0,
    left: 132.0,
    right: 352.0,
    high: 22.0,
    letters: 11.0,
};

/// What stands at the axis of the summary's picture.
pub const AXIS: &str = "times better with Byway";

/// What stands above the first row, and below the last.
const ABOVE: f64 = 26.0;
const BELOW: f64 = 44.0;

/// What is uncertain stands back; its words are still read easily.
const FAINT: &str = " opacity=\"0.6\"";
const FAINT_TEXT: &str = " opacity=\"0.75\"";

/// Drawn from top to bottom.
enum Line<'a> {
    Head(&'a str),
    Row(&'a Row),
}

/// The picture; `told` is what it says to those who do not see it, `along` stands at the axis.
pub fn draw(rows: &[Row], told: &str, along: &str, shape: Shape) -> String {
    let f = match shape {
        Shape::Desk => &DESK,
        Shape::Phone => &PHONE,
    };
    let lines = lines(rows);
    let scale = f.with_room(scale(rows));
    let bottom = ABOVE + f.high * lines.len() as f64;
    let class = if shape == Shape::Desk {
        "desk"
    } else {
        "phone"
    };
    let mut s = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"forest {class}\" viewBox=\"0 0 {} {}\" role=\"group\" \
         aria-label=\"{}\" font-family=\"sans-serif\" font-size=\"{}\" fill=\"currentColor\">\n",
        f.width,
        bottom + BELOW,
        escaped(told),
        f.letters
    );
    axis(&mut s, f, &scale, along, bottom);
    for (i, line) in lines.iter().enumerate() {
        let y = ABOVE + f.high * (i as f64 + 0.5);
        match line {
            Line::Head(text) => {
                let _ = writeln!(
                    s,
                    "<text class=\"head\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" font-weight=\"bold\">{}</text>",
                    f.names,
                    y + 0.36 * f.letters,
                    escaped(text)
                );
            }
            Line::Row(r) => row(&mut s, f, &scale, r, y, shape),
        }
    }
    s.push_str("</svg>\n");
    s
}

/// The same as a file: on white.
pub fn file(rows: &[Row], told: &str, along: &str) -> String {
    let picture = draw(rows, told, along, Shape::Desk);
    let Some((head, rest)) = picture.split_once('\n') else {
        return picture;
    };
    let head = head.replacen("<svg ", "<svg style=\"color:#222;background:#fff\" ", 1);
    format!("{head}\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{rest}")
}

/// The rows, those of one heading together below it, if there are several.
fn lines(rows: &[Row]) -> Vec<Line<'_>> {
    let mut heads: Vec<&str> = vec![];
    for r in rows {
        if !heads.contains(&&r.head[..]) {
            heads.push(&r.head);
        }
    }
    let mut v = vec![];
    for head in &heads {
        v.extend((heads.len() > 1).then_some(Line::Head(head)));
        v.extend(rows.iter().filter(|r| r.head == *head).map(Line::Row));
    }
    v
}

/// The axis that holds every row and 1.
fn scale(rows: &[Row]) -> Scale {
    let all = rows
        .iter()
        .flat_map(|r| r.ci95.into_iter().chain(r.span).chain([r.ratio]));
    let values: Vec<f64> = all.chain([1.0]).filter(|v| *v > 0.0).collect();
    let axis = Axis::new("", true);
    Scale::of(&axis, values.iter().copied())
}

impl Frame {
    /// The scale, reaching so far to the right that what stands beside 1 above the rows is inside the picture.
    fn with_room(&self, mut scale: Scale) -> Scale {
        const WORD: f64 = 60.0;
        let most = (self.width - WORD - self.left) / (self.right - self.left);
        let one = scale.at(1.0) - scale.low;
        scale.high = scale.high.max(scale.low + one / most);
        scale
    }
    /// Where a ratio stands; one of nothing at the left end.
    fn x(&self, scale: &Scale, v: f64) -> f64 {
        let part = (scale.at(v) - scale.low) / (scale.high - scale.low);
        self.left + part.clamp(0.0, 1.0) * (self.right - self.left)
    }
}

/// Its marks, the line at 1, and which side of it is which.
fn axis(s: &mut String, f: &Frame, scale: &Scale, along: &str, bottom: f64) {
    let (one, small) = (f.x(scale, 1.0), f.letters - 1.0);
    let mut end = f64::NEG_INFINITY;
    for mark in &scale.marks {
        let (x, text) = (f.x(scale, 10f64.powf(*mark)), scale.text(*mark));
        let _ = writeln!(
            s,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{ABOVE}\" y2=\"{bottom}\" stroke=\"currentColor\" stroke-opacity=\"0.15\"/>"
        );
        let half = 0.31 * small * text.len() as f64;
        if x - half > end && x + half <= f.width {
            let _ = writeln!(
                s,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"{small}\">{text}</text>",
                bottom + 15.0
            );
            end = x + half + 4.0;
        }
    }
    let _ = writeln!(
        s,
        "<line class=\"one\" x1=\"{one:.1}\" x2=\"{one:.1}\" y1=\"{:.1}\" y2=\"{bottom}\" stroke=\"currentColor\" stroke-width=\"1.5\"/>",
        ABOVE - 16.0
    );
    let y = ABOVE - 8.0;
    for (x, anchor, text) in [
        (one - 6.0, "end", "◂ slower"),
        (one + 6.0, "start", "faster ▸"),
    ] {
        let _ = writeln!(
            s,
            "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{small}\">{text}</text>"
        );
    }
    let _ = writeln!(
        s,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"{small}\">{along} (logarithmic)</text>",
        (f.left + f.right) / 2.0,
        bottom + 34.0
    );
}

/// One row: its name, the bar of its cases, its interval, its dot, and its figures where they have room.
fn row(s: &mut String, f: &Frame, scale: &Scale, r: &Row, y: f64, shape: Shape) {
    // Okabe and Ito's blue and vermilion, by the interval alone; grey is neither.
    let (tone, colour) = match r.leans {
        Clear::Better => ("better-tone", "#0072b2"),
        Clear::Worse => ("worse-tone", "#d55e00"),
        Clear::Neither => ("no-tone", "#666666"),
    };
    let (text, faint) = (y + 0.36 * f.letters, r.verdict == Verdict::Uncertain);
    let _ = writeln!(
        s,
        "<a href=\"#{}\"><title>{}</title>",
        r.part,
        escaped(&r.told())
    );
    let _ = writeln!(
        s,
        "<text class=\"name\" x=\"{}\" y=\"{text:.1}\" text-anchor=\"end\"{}>{}</text>",
        f.names,
        if faint { FAINT_TEXT } else { "" },
        escaped(&r.label)
    );
    let _ = writeln!(
        s,
        "<g class=\"{} {tone}\" color=\"{colour}\"{}>",
        r.verdict.word(),
        if faint { FAINT } else { "" }
    );
    let [worst, best] = r.span.map(|v| f.x(scale, v));
    if best - worst > 1.0 {
        let _ = writeln!(
            s,
            "<rect class=\"span\" x=\"{worst:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"8\" rx=\"2\" fill-opacity=\"0.18\" fill=\"currentColor\"/>",
            y - 4.0,
            best - worst
        );
    }
    let [low, high] = r.ci95.map(|v| f.x(scale, v));
    let _ = writeln!(
        s,
        "<path class=\"interval\" d=\"M{low:.1} {y}H{high:.1}\" stroke=\"currentColor\" stroke-width=\"2\"{}/>",
        if faint {
            " stroke-dasharray=\"4 3\""
        } else {
            ""
        }
    );
    dot(s, r.verdict, f.x(scale, r.ratio), y);
    s.push_str("</g>");
    if shape == Shape::Desk {
        figures(s, f, r, text, if faint { FAINT_TEXT } else { "" });
    }
    s.push_str("</a>\n");
}

/// A disc is faster, a diamond slower, a ring uncertain.
fn dot(s: &mut String, v: Verdict, x: f64, y: f64) {
    let _ = match v {
        Verdict::Faster => writeln!(
            s,
            "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"4.5\" fill=\"currentColor\"/>"
        ),
        Verdict::Slower => writeln!(
            s,
            "<path d=\"M{x:.1} {:.1}l6 6l-6 6l-6 -6z\" fill=\"currentColor\"/>",
            y - 6.0
        ),
        Verdict::Uncertain => writeln!(
            s,
            "<circle class=\"ring\" cx=\"{x:.1}\" cy=\"{y}\" r=\"4\" fill=\"#fff\" stroke=\"currentColor\" stroke-width=\"1.5\"/>"
        ),
    };
}

/// The ratio, its interval, and why it is uncertain or how many cases there are.
fn figures(s: &mut String, f: &Frame, r: &Row, y: f64, faint: &str) {
    let note = match &r.doubts[..] {
        [] => match r.cases.iter().sum() {
            1 => String::new(),
            n => format!("middle of {n}"),
        },
        all => all.join(", "),
    };
    let interval = match r.ci95 {
        [low, high] if low < high => format!("{}–{}", short(low), short(high)),
        _ => String::new(),
    };
    for (at, anchor, bold, text) in [
        (48.0, "end", true, short(r.ratio)),
        (60.0, "start", false, interval),
        (166.0, "start", false, note),
    ] {
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            s,
            "<text class=\"figure\" x=\"{}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{weight}{faint}>{}</text>",
            f.right + at,
            escaped(&text)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::summary::tests::some;
    use super::*;

    /// The numbers of an attribute, of all elements that are of a class.
    fn numbers(svg: &str, class: &str, attribute: &str) -> Vec<f64> {
        let own = svg
            .lines()
            .filter(|l| l.contains(&format!("class=\"{class}\"")));
        let value = |l: &str| {
            let rest = l.split_once(&format!(" {attribute}=\""))?.1;
            rest.split_once('"')?.0.parse().ok()
        };
        own.filter_map(value).collect()
    }

    #[test]
    fn every_row_is_drawn_and_looks_as_it_was_judged() {
        let rows = some();
        for shape in [Shape::Desk, Shape::Phone] {
            let s = draw(&rows, "told", "times better", shape);
            assert_eq!(numbers(&s, "name", "y").len(), rows.len());
            assert_eq!(s.matches("<g class=\"faster ").count(), 3);
            assert_eq!(s.matches("<g class=\"slower ").count(), 1);
            let uncertain = s.matches("<g class=\"uncertain ").count();
            assert_eq!(uncertain, 3);
            assert_eq!(s.matches("stroke-dasharray").count(), uncertain);
            assert_eq!(s.matches("class=\"ring\"").count(), uncertain);
            assert!(!s.contains("<b>") && !s.contains("NaN") && !s.contains("inf"));
            assert_eq!(s.matches("<g ").count(), s.matches("</g>").count());
        }
    }

    #[test]
    fn one_divides_faster_from_slower() {
        let s = draw(&some(), "told", "times better", Shape::Desk);
        let one = numbers(&s, "one", "x1")[0];
        let at = |class: &str| {
            let after = s.split_once(&format!("<g class=\"{class} ")).unwrap().1;
            let path = after.split_once(" d=\"M").unwrap().1;
            path.split_once(' ').unwrap().0.parse::<f64>().unwrap()
        };
        assert!(at("faster") > one && at("slower") < one);
        assert!(s.contains("◂ slower") && s.contains("faster ▸"));
    }

    #[test]
    fn faster_has_room_where_nothing_is() {
        let mut rows = some();
        for r in &mut rows {
            (r.ratio, r.ci95, r.span) = (0.3, [0.2, 0.4], [0.1, 1.0]);
        }
        for (shape, width) in [(Shape::Desk, DESK.width), (Shape::Phone, PHONE.width)] {
            let one = numbers(&draw(&rows, "told", "times better", shape), "one", "x1")[0];
            assert!(one + 60.0 <= width, "{one}");
        }
    }

    #[test]
    fn texts_stand_inside_and_not_on_each_other() {
        for (shape, width) in [(Shape::Desk, DESK.width), (Shape::Phone, PHONE.width)] {
            let s = draw(&some(), "told", "times better", shape);
            for class in ["tick", "name", "figure"] {
                assert!(
                    numbers(&s, class, "x")
                        .iter()
                        .all(|x| (0.0..width).contains(x))
                );
            }
            // A letter is about half as wide as it is high.
            let end = |l: &str| {
                let x: f64 = l.split_once(" x=\"")?.1.split_once('"')?.0.parse().ok()?;
                let text = l.split_once('>')?.1.split_once('<')?.0;
                let start = l.contains("text-anchor=\"start\"");
                start.then_some(x + 0.55 * DESK.letters * text.chars().count() as f64)
            };
            let ends: Vec<f64> = s.lines().filter_map(end).collect();
            assert!(ends.iter().all(|x| *x < width), "{ends:?}");
            let ticks = numbers(&s, "tick", "x");
            assert!(
                ticks.len() >= 3 && ticks.windows(2).all(|w| w[1] - w[0] > 12.0),
                "{ticks:?}"
            );
            let rows = numbers(&s, "name", "y");
            assert!(rows.windows(2).all(|w| w[1] - w[0] > 1.3 * DESK.letters));
        }
    }

    #[test]
    fn both_kinds_of_rows_have_a_heading_if_there_are_both() {
        let all = some();
        let s = draw(&all, "told", "times better", Shape::Desk);
        assert_eq!(s.matches("class=\"head\"").count(), 2);
        assert!(!draw(&all[..4], "told", "times better", Shape::Desk).contains("class=\"head\""));
        // Nothing to compare is an empty picture, and no fault.
        assert!(!draw(&[], "told", "times better", Shape::Phone).contains("NaN"));
    }

    #[test]
    fn a_file_is_on_white_and_says_what_it_shows() {
        let s = file(&some(), "1 < 2", "times better");
        assert!(s.starts_with("<svg ") && s.contains("fill=\"#fff\"/>"));
        assert!(s.contains("aria-label=\"1 &lt; 2\""));
    }
}

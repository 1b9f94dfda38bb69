//! A plot as an SVG file.
//!
//! Invariant: light, 800 by 450; a line is told from another by its marker too; what is of other machines is grey and says so.
//! Not here: what is shown (plot.rs), the picture of the summary (svg/forest.rs).
pub mod forest;

use super::plot::{Axis, Plot};
use super::units::{Step, mark};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;

/// Colours that are told apart by those who see fewer (M. Okabe, K. Ito, 2008), and two more.
const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(160, 120, 0),
    RGBColor(60, 60, 60),
    RGBColor(106, 79, 200),
    RGBColor(139, 26, 26),
];
const ELSEWHERE: RGBColor = RGBColor(130, 130, 130);

/// An axis as the drawing has it: from, to, and where its marks are; logarithms where it is logarithmic.
#[derive(Clone)]
struct Scale {
    log: bool,
    low: f64,
    high: f64,
    marks: Vec<f64>,
    names: Vec<String>,
    steps: Vec<Step>,
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;
    fn map(&self, v: &f64, (from, to): (i32, i32)) -> i32 {
        from + ((v - self.low) / (self.high - self.low) * f64::from(to - from)).round() as i32
    }
    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.marks.clone()
    }
    fn range(&self) -> std::ops::Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Scale {
    fn format(v: &f64) -> String {
        v.to_string()
    }
    fn format_ext(&self, v: &f64) -> String {
        match self.names.get(v.round() as usize) {
            Some(name) => name.clone(),
            None => self.text(*v),
        }
    }
}

impl Scale {
    fn of(axis: &Axis, values: impl Iterator<Item = f64> + Clone) -> Scale {
        if !axis.names.is_empty() {
            let n = axis.names.len() as f64;
            return Scale {
                log: false,
                low: -0.5,
                high: n - 0.5,
                marks: (0..axis.names.len()).map(|i| i as f64).collect(),
                names: axis.names.clone(),
                steps: vec![],
            };
        }
        let put = |v: f64| if axis.log { v.log10() } else { v };
        let least = values.clone().map(put).fold(f64::INFINITY, f64::min);
        let most = values.map(put).fold(f64::NEG_INFINITY, f64::max);
        let room = (0.06 * (most - least)).max(0.02 * most.abs()).max(1e-6);
        let low = if axis.log || least < 0.0 {
            least - room
        } else {
            0.0
        };
        let high = most + room;
        Scale {
            log: axis.log,
            low,
            high,
            marks: marks(axis.log, low, high),
            names: vec![],
            steps: axis.steps.clone(),
        }
    }
    fn at(&self, v: f64) -> f64 {
        if self.log { v.max(1e-300).log10() } else { v }
    }
    /// What stands at a mark.
    fn text(&self, at: f64) -> String {
        mark(if self.log { 10f64.powf(at) } else { at }, &self.steps)
    }
}

/// Round values between the two: 1, 2, 5 of each decade if they are few, or whole steps.
fn marks(log: bool, low: f64, high: f64) -> Vec<f64> {
    if !log {
        let raw = (high - low) / 6.0;
        let unit = 10f64.powf(raw.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|k| k * unit);
        let step = steps.into_iter().find(|s| *s >= raw).unwrap_or(raw);
        let first = (low / step).ceil() as i64;
        let all = (first..).map(|i| i as f64 * step);
        return all.take_while(|v| *v <= high).collect();
    }
    let decades = low.floor() as i32..=high.ceil() as i32;
    let with = |parts: &[f64]| -> Vec<f64> {
        let all = decades
            .clone()
            .flat_map(|d| parts.iter().map(move |p| f64::from(d) + p.log10()));
        all.filter(|v| (low..=high).contains(v)).collect()
    };
    [
        &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0][..],
        &[1.0, 2.0, 5.0],
        &[1.0],
    ]
    .into_iter()
    .map(with)
    .find(|v| v.len() <= 9)
    .unwrap_or_else(|| with(&[1.0]))
}

/// The file.
///
/// # Errors
/// A sentence: the drawing library refused.
pub fn draw(p: &Plot) -> Result<String, String> {
    let mut text = String::new();
    into(&mut text, p).map_err(|e| {
        format!(
            "{}: {e}; this is a mistake of byway, please report it",
            p.id
        )
    })?;
    Ok(text)
}

type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'c, 'a> = ChartContext<'c, SVGBackend<'a>, Cartesian2d<Scale, Scale>>;
type Drawn<'a> = Result<(), Box<dyn Error + 'a>>;

fn into<'a>(text: &'a mut String, p: &'a Plot) -> Drawn<'a> {
    let points = || p.lines.iter().flat_map(|l| &l.points);
    let ys = points()
        .flat_map(|q| [q[1], q[2], q[3]])
        .chain(p.unity.then_some(1.0));
    let ys: Vec<f64> = ys.filter(|v| !p.y.log || *v > 0.0).collect();
    let slanted = p.x.names.len() > 6;
    let mut x = Scale::of(&p.x, points().map(|q| q[0]));
    let y = Scale::of(&p.y, ys.iter().copied());
    let root = SVGBackend::with_string(text, (800, 450)).into_drawing_area();
    root.fill(&WHITE)?;
    let bottom = if slanted { 150 } else { 46 };
    if slanted {
        // They are written upwards, below.
        x.names.fill(String::new());
    }
    let longest = p.lines.iter().map(|l| l.name.len()).max().unwrap_or(0) as i32;
    let mut chart = ChartBuilder::on(&root)
        .caption(&p.title, ("sans-serif", 18))
        .margin(10)
        .margin_right(60 + 7 * longest)
        .x_label_area_size(bottom)
        .y_label_area_size(64)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(x.marks.len().max(2))
        .y_labels(y.marks.len().max(2))
        .x_desc(&p.x.title)
        .y_desc(&p.y.title)
        .draw()?;
    if slanted {
        names_upwards(&root, &chart, &p.x.names, y.low)?;
    }
    if p.unity {
        let one = y.at(1.0);
        chart.draw_series(LineSeries::new(
            [(x.low, one), (x.high, one)],
            BLACK.mix(0.6),
        ))?;
    }
    for i in 0..p.lines.len() {
        line(&mut chart, p, i, &x, &y)?;
        key(&root, &chart, p, i)?;
    }
    root.present()?;
    Ok(())
}

/// Names of the horizontal axis, which are too many to stand in a row, from below the mark `low` on.
fn names_upwards<'a>(
    root: &Root<'a>,
    chart: &Chart<'_, 'a>,
    names: &[String],
    low: f64,
) -> Drawn<'a> {
    let style = ("sans-serif", 13).into_text_style(root);
    let style = style
        .transform(FontTransform::Rotate270)
        .pos(Pos::new(HPos::Right, VPos::Center));
    let across = |i: f64| chart.backend_coord(&(i, low)).0;
    let apart =
        f64::from(across(names.len() as f64 - 1.0) - across(0.0)) / (names.len() - 1) as f64;
    for (i, name) in names.iter().enumerate().step_by(every(apart)) {
        let (at, below) = chart.backend_coord(&(i as f64, low));
        root.draw(&Text::new(name.clone(), (at, below + 10), style.clone()))?;
    }
    Ok(())
}

/// Of names that are so far apart, one in how many stands there: they are 13 high.
fn every(apart: f64) -> usize {
    (14.0 / apart.max(0.1)).ceil().max(1.0) as usize
}

/// The colour of line `i`.
fn colour(p: &Plot, i: usize) -> RGBColor {
    match p.lines[i].elsewhere {
        true => ELSEWHERE,
        false => COLOURS[i % COLOURS.len()],
    }
}

/// Line `i`: its path, its intervals, its markers, and the points that are looked for.
fn line<'a>(chart: &mut Chart<'_, 'a>, p: &Plot, i: usize, x: &Scale, y: &Scale) -> Drawn<'a> {
    let (line, colour) = (&p.lines[i], colour(p, i));
    // Names have room beside each other.
    let aside = if p.x.names.is_empty() {
        0.0
    } else {
        0.6 * ((i as f64 + 0.5) / p.lines.len() as f64 - 0.5)
    };
    let place = |q: &[f64; 4], k: usize| (x.at(q[0]) + aside, y.at(q[k]));
    if p.x.names.is_empty() {
        let path = line.points.iter().map(|q| place(q, 1));
        if line.elsewhere {
            chart.draw_series(DashedLineSeries::new(path, 6, 4, colour.stroke_width(1)))?;
        } else {
            chart.draw_series(LineSeries::new(path, colour.stroke_width(2)))?;
        }
    }
    let bars = line.points.iter().filter(|q| q[3] > q[2]);
    chart
        .draw_series(bars.map(|q| PathElement::new([place(q, 2), place(q, 3)], colour.mix(0.6))))?;
    let size = if line.points.len() > 30 { 0 } else { 4 };
    let at = line.points.iter().map(|q| place(q, 1));
    let fill = colour.filled();
    match i % 3 {
        0 => chart.draw_series(at.map(|c| Circle::new(c, size, fill)))?,
        1 => chart.draw_series(at.map(|c| TriangleMarker::new(c, size + 1, fill)))?,
        _ => chart.draw_series(at.map(|c| Cross::new(c, size, fill)))?,
    };
    let ring = line
        .marked
        .iter()
        .map(|m| place(&[m[0], m[1], m[1], m[1]], 1));
    chart.draw_series(ring.map(|c| Circle::new(c, 8, colour.stroke_width(2))))?;
    Ok(())
}

/// The name and marker of line `i`, beside the drawing, where they hide nothing.
fn key<'a>(root: &Root<'a>, chart: &Chart<'_, 'a>, p: &Plot, i: usize) -> Drawn<'a> {
    let (wide, high) = chart.plotting_area().get_pixel_range();
    let (x, y) = (wide.end + 20, high.start + 12 + 20 * i as i32);
    let style = ("sans-serif", 13).into_text_style(root);
    let style = style.pos(Pos::new(HPos::Left, VPos::Center));
    root.draw(&Text::new(p.lines[i].name.clone(), (x + 12, y), style))?;
    let fill = colour(p, i).filled();
    match i % 3 {
        0 => root.draw(&Circle::new((x, y), 4, fill))?,
        1 => root.draw(&TriangleMarker::new((x, y), 5, fill))?,
        _ => root.draw(&Cross::new((x, y), 4, fill))?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        assert_eq!(marks(false, 0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let decades = marks(true, -3.0, 7.0);
        assert!(decades.iter().all(|v| v.fract().abs() < 1e-9));
        let near: Vec<_> = marks(true, 0.0, 1.0)
            .iter()
            .map(|v| mark(10f64.powf(*v), &[]))
            .collect();
        assert_eq!(near, ["1", "1.5", "2", "3", "5", "7", "10"]);
    }

    /// Where the texts stand that are written upwards.
    fn upwards(svg: &str) -> Vec<f64> {
        let turned = svg.lines().filter(|l| l.contains("rotate(270"));
        turned
            .filter_map(|l| l.split_once(" x=\"")?.1.split_once('"')?.0.parse().ok())
            .collect()
    }

    #[test]
    fn names_that_are_too_many_do_not_lie_on_each_other() {
        for n in [7, 30, 120] {
            let mut p = crate::report::plot::plots("odd", &crate::report::tests::some()[2].record)
                .remove(0);
            p.x.names = (0..n).map(|i| format!("case-{i}")).collect();
            p.lines[0].points = (0..n).map(|i| [f64::from(i), 2.0, 1.0, 3.0]).collect();
            // The label of the vertical axis is one of them.
            let x = upwards(&draw(&p).unwrap())[1..].to_vec();
            assert!(
                x.len() > 6 && x.windows(2).all(|w| w[1] - w[0] >= 13.0),
                "{n}: {x:?}"
            );
        }
    }

    #[test]
    fn marks_have_their_unit_and_no_exponent() {
        let mut p =
            crate::report::plot::plots("odd", &crate::report::tests::some()[2].record).remove(0);
        p.y = Axis::new("s", true);
        p.lines[0].points = (0..3).map(|i| [f64::from(i), 1e-6, 1e-6, 1.0]).collect();
        let svg = draw(&p).unwrap();
        for mark in [">\n1 us\n", ">\n1 ms\n", ">\n1 s\n"] {
            assert!(svg.contains(mark), "{mark} {svg}");
        }
        assert!(!svg.contains("1e-") && !svg.contains("00e"));
    }
}

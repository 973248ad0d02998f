//! A plot as SVG, written by hand: lines over a common x, each with its name.

use std::fmt::Write;

use anyhow::Result;

/// The picture, and the place of its axes.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;
/// Distances between marks of an axis, as multiples of a power of ten.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
/// Marks of an axis, at the most.
const MARKS: f64 = 8.0;
/// Colours that people tell apart who see few colours (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// Lines with what they are.
pub(super) struct Plot {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    /// Names, and points in the order of x.
    pub(super) lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Plot {
    /// The picture. Both axes begin at zero.
    pub(super) fn svg(&self) -> Result<String> {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let step_x = step(points().map(|point| point.0).fold(0.0, f64::max));
        let step_y = step(points().map(|point| point.1).fold(0.0, f64::max));
        let end = |most: f64, step: f64| (most / step).ceil().max(1.0) * step;
        let end_x = end(points().map(|point| point.0).fold(0.0, f64::max), step_x);
        let end_y = end(points().map(|point| point.1).fold(0.0, f64::max), step_y);
        let at_x = |x: f64| LEFT + x / end_x * (WIDTH - LEFT - RIGHT);
        let at_y = |y: f64| HEIGHT - BOTTOM - y / end_y * (HEIGHT - TOP - BOTTOM);
        let (x0, x1, y0, y1) = (at_x(0.0), at_x(end_x), at_y(0.0), at_y(end_y));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut svg, (WIDTH / 2.0, TOP / 2.0), "middle", &self.title)?;
        text(&mut svg, ((x0 + x1) / 2.0, HEIGHT - 12.0), "middle", &self.x)?;
        text(&mut svg, (8.0, TOP - 12.0), "start", &self.y)?;
        for x in marks(step_x, end_x) {
            line(&mut svg, (at_x(x), y0), (at_x(x), y1))?;
            text(&mut svg, (at_x(x), y0 + 18.0), "middle", &figure(x, step_x))?;
        }
        for y in marks(step_y, end_y) {
            line(&mut svg, (x0, at_y(y)), (x1, at_y(y)))?;
            text(&mut svg, (x0 - 8.0, at_y(y) + 4.0), "end", &figure(y, step_y))?;
        }
        for (i, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let path: Vec<_> =
                points.iter().map(|(x, y)| format!("{:.1},{:.1}", at_x(*x), at_y(*y))).collect();
            let path = path.join(" ");
            writeln!(
                svg,
                "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
            )?;
            for (x, y) in points {
                writeln!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                    at_x(*x),
                    at_y(*y)
                )?;
            }
            let y = TOP + 18.0 * (i as f64 + 1.0);
            writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"4\" fill=\"{colour}\"/>",
                x0 + 12.0,
                y - 6.0
            )?;
            text(&mut svg, (x0 + 30.0, y), "start", name)?;
        }
        svg += "</svg>\n";
        Ok(svg)
    }
}

/// A round distance between marks, so that there are few up to `most`.
fn step(most: f64) -> f64 {
    let least = most / MARKS;
    if least <= 0.0 || !least.is_finite() {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    STEPS.into_iter().map(|step| step * power).find(|step| *step >= least).unwrap_or(power * 10.0)
}

/// The marks of an axis, from zero to its end.
fn marks(step: f64, end: f64) -> impl Iterator<Item = f64> {
    (0..=(end / step).round() as u32).map(move |i| f64::from(i) * step)
}

/// A number with as many decimals as its axis needs.
fn figure(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) -> Result<()> {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    Ok(writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>")?)
}

fn line(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Result<()> {
    let stroke = "stroke=\"#ddd\"";
    Ok(writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" {stroke}/>")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        for (most, expected) in [(0.0, 1.0), (275.0, 50.0), (8.0, 1.0), (0.7, 0.1), (11.0, 2.0)] {
            assert!((step(most) - expected).abs() < 1e-9, "{most}: {}", step(most));
        }
        assert_eq!(figure(0.30000004, 0.1), "0.3");
        assert_eq!(figure(250.0, 50.0), "250");
    }

    #[test]
    fn every_point_lies_inside() {
        let lines = vec![("a & b".to_owned(), vec![(50.0, 1.5), (275.0, 9.0)]), ("c".to_owned(), vec![])];
        let plot = Plot { title: "t".to_owned(), x: "x".to_owned(), y: "y".to_owned(), lines };
        let svg = plot.svg().unwrap();
        assert!(svg.contains("a &amp; b") && svg.ends_with("</svg>\n"), "{svg}");
        let values = |name: &str| -> Vec<f64> {
            let begin = format!("{name}=\"");
            let parts = svg.split(&begin).skip(1);
            parts.map(|part| part.split('"').next().unwrap().parse().unwrap()).collect()
        };
        assert_eq!(values("cx").len(), 2);
        assert!(values("cx").iter().all(|x| (LEFT..=WIDTH - RIGHT).contains(x)), "{svg}");
        assert!(values("cy").iter().all(|y| (TOP..=HEIGHT - BOTTOM).contains(y)), "{svg}");
    }
}

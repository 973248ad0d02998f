// Lines over time, drawn by uPlot.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** The name of a custom property of the style sheet. */
  colour: string;
  values: (number | null)[];
  fill?: boolean;
}

const HEIGHT = 140;

/** Distances of grid lines in bytes, which are read in powers of two. */
const BINARY = Array.from({ length: 48 }, (_, power) => 2 ** power);

export function Chart({ title, start, step, lines, show, floor = 1, binary = false }: {
  title: string;
  start: number;
  step: number;
  lines: Line[];
  show: (value: number) => string;
  /** The scale reaches at least to here, so that next to nothing does not look like much. */
  floor?: number;
  /** Whether the values are bytes. */
  binary?: boolean;
}) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const data: uPlot.AlignedData = [
    (lines[0]?.values ?? []).map((_, index) => start + index * step),
    ...lines.map((line) => line.values),
  ];
  // At first only what there is, but never so little that a minute looks like a trend.
  const span = Math.min(Math.max(data[0].length * step, 30 * step), step > 60 ? 86_400 : 1800);
  const end = start + Math.max(0, data[0].length - 1) * step;
  const latest = useRef({ data, show, span, end, floor });
  latest.current = { data, show, span, end, floor };
  const key = lines.map((line) => line.label + line.colour).join();

  useEffect(() => {
    const element = place.current;
    if (!element) return;
    const draw = () => {
      plot.current?.destroy();
      const style = getComputedStyle(document.documentElement);
      const colour = (name: string) => style.getPropertyValue(name).trim();
      const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px sans-serif" };
      plot.current = new uPlot(
        {
          width: element.clientWidth || 400,
          height: HEIGHT,
          legend: { show: false },
          cursor: { y: false, points: { size: 6 } },
          padding: [8, 8, 0, 0],
          scales: { x: { range: () => [latest.current.end - latest.current.span, latest.current.end] }, y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, latest.current.floor)] } },
          axes: [
            { ...axis, size: 26, grid: { show: false }, values: (_plot, ticks) => ticks.map(clock) },
            { ...axis, size: 58, ...(binary ? { incrs: BINARY } : {}), values: (_plot, ticks) => ticks.map((tick) => latest.current.show(tick)) },
          ],
          series: [
            {},
            ...lines.map((line) => ({
              label: line.label,
              stroke: colour(line.colour),
              width: 1.5,
              points: { show: (own: uPlot) => own.data[0].length < 3, size: 4 },
              ...(line.fill ? { fill: `${colour(line.colour)}22` } : {}),
            })),
          ],
        },
        latest.current.data,
        element,
      );
    };
    draw();
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    window.addEventListener("theme", draw);
    return () => {
      observer.disconnect();
      window.removeEventListener("theme", draw);
      plot.current?.destroy();
    };
  }, [key]);
  useEffect(() => plot.current?.setData(data), [data[0]?.[0], data[0]?.length, ...lines.map((line) => line.values)]);

  return (
    <section class="chart" aria-label={title}>
      <h2>
        {title}
        {lines.length > 1 && lines.map((line) => <span class="key" style={{ "--c": `var(${line.colour})` }}>{line.label}</span>)}
      </h2>
      <div ref={place} />
    </section>
  );
}

const two = (value: number) => String(value).padStart(2, "0");

function clock(time: number): string {
  const at = new Date(time * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}`;
}

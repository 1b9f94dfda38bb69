// Draws the plots of `byway report` with uPlot: values under the pointer or the arrow keys, lines on and off, both scales
// linear or logarithmic, dark, light and paper. The data stands in each figure as JSON (lab, report/plot.rs).
"use strict";
(() => {
  const root = document.documentElement;
  const colour = name => getComputedStyle(root).getPropertyValue(name).trim();
  const short = v => {
    const a = Math.abs(v);
    if (v === 0) return "0";
    if (a >= 1e7 || a < 0.01) return v.toExponential(2);
    return a >= 100 ? v.toFixed(0) : String(+v.toFixed(a >= 10 ? 1 : 3));
  };
  // Sizes that are powers of two, or half as much again, are told as such.
  const size = v => {
    for (const [k, unit] of [[1 << 20, "M"], [1024, "K"]])
      if (v >= k && Number.isInteger(4 * v / k)) return v / k + unit;
    return mark(v);
  };
  const mark = v => Math.abs(v) >= 1e6 ? v.toExponential().replace("+", "") : short(v);
  const all = [];

  // Round values between the two, as many as have room.
  function marks(low, high, log, room) {
    if (!log) {
      const raw = (high - low) / Math.max(2, room), unit = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map(k => k * unit).find(s => s >= raw) || raw;
      const v = [];
      for (let i = Math.ceil(low / step); i * step <= high; i++) v.push(+(i * step).toPrecision(12));
      return v;
    }
    const decades = [];
    for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d++) decades.push(d);
    for (const parts of [[1, 1.5, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
      const v = decades.flatMap(d => parts.map(p => p * 10 ** d)).filter(v => v >= low && v <= high);
      if (v.length <= room) return v;
    }
    const v = decades.map(d => 10 ** d).filter(v => v >= low && v <= high);
    return v.filter((_, i) => i % Math.ceil(v.length / room) === 0);
  }

  function figure(at) {
    const plot = JSON.parse(at.querySelector("script").textContent);
    const place = at.querySelector(".canvas"), said = at.querySelector(".readout"), keys = at.querySelector(".keys");
    const named = plot.x.names.length > 0;
    const xs = [...new Set(plot.lines.flatMap(l => l.points.map(p => p[0])))].sort((a, b) => a - b);
    const of = plot.lines.map(l => new Map(l.points.map(p => [p[0], p])));
    const data = [xs, ...of.map(m => xs.map(x => m.has(x) ? m.get(x)[1] : null))];
    const positive = k => plot.lines.every(l => l.points.every(p => p[k] > 0));
    const on = plot.lines.map(() => true);
    const scale = { x: plot.x.log, y: plot.y.log };
    const dense = xs.length > 40;
    // A line that turns back is drawn from point to point, not along the axis.
    const turns = plot.lines.some(l => l.points.some((p, i) => i > 0 && p[0] < l.points[i - 1][0]));
    let drawn = null, index = null;

    const stroke = i => plot.lines[i].elsewhere ? colour("--gone") : colour(`--c${i % 9}`);
    const key = (text, checked, change, dot) => {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox"; box.checked = checked;
      box.addEventListener("change", () => { change(box.checked); draw(); });
      label.append(box);
      if (dot !== null) { const s = document.createElement("span"); s.className = "dot"; s.dataset.line = dot; label.append(s); }
      else label.className = "scale";
      label.append(text); keys.append(label);
    };
    plot.lines.forEach((l, i) => key(l.name, true, v => { on[i] = v; }, i));
    if (!named && positive(0)) key("log x", scale.x, v => { scale.x = v; }, null);
    if (positive(1)) key("log y", scale.y, v => { scale.y = v; }, null);

    // The values at a place of the axis.
    function say(i) {
      index = i;
      if (i === null || i === undefined) { said.textContent = ""; return; }
      const x = named ? plot.x.names[xs[i]] : `${size(xs[i])} ${plot.x.label}`;
      const values = plot.lines.map((l, k) => {
        const p = of[k].get(xs[i]);
        if (!p || !on[k]) return null;
        return `${l.name} ${short(p[1])}` + (p[3] > p[2] ? ` [${short(p[2])}–${short(p[3])}]` : "");
      }).filter(v => v);
      said.textContent = `${x}: ${values.join("; ")}${values.length ? " " + plot.y.label : ""}`;
    }

    function range(axis) {
      const v = [];
      plot.lines.forEach((l, k) => { if (on[k]) l.points.forEach(p => { v.push(...(axis ? [p[1], p[2], p[3]] : [p[0]])); }); });
      if (axis && plot.unity) v.push(1);
      const log = axis ? scale.y : scale.x;
      const fit = v.filter(x => !log || x > 0);
      if (!fit.length) return [log ? 1 : 0, 10];
      const low = Math.min(...fit), high = Math.max(...fit);
      if (named && !axis) return [-0.5, plot.x.names.length - 0.5];
      if (log) { const f = Math.max(1.05, (high / low) ** 0.06); return [low / f, high * f]; }
      const more = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
      return [axis && low >= 0 ? 0 : low - more, high + more];
    }

    // Intervals, and where places are named the points too, side by side.
    function intervals(u) {
      const c = u.ctx, n = plot.lines.length, dot = devicePixelRatio;
      const step = named ? u.valToPos(1, "x", true) - u.valToPos(0, "x", true) : 0;
      c.save();
      c.beginPath(); c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); c.clip();
      if (plot.unity) {
        const y = Math.round(u.valToPos(1, "y", true));
        c.strokeStyle = colour("--soft"); c.lineWidth = dot;
        c.beginPath(); c.moveTo(u.bbox.left, y); c.lineTo(u.bbox.left + u.bbox.width, y); c.stroke();
      }
      plot.lines.forEach((l, i) => {
        if (!on[i]) return;
        c.strokeStyle = c.fillStyle = stroke(i); c.lineWidth = 2 * dot;
        if (turns) {
          c.beginPath();
          for (const p of l.points) c.lineTo(u.valToPos(p[0], "x", true), u.valToPos(p[1], "y", true));
          c.stroke();
        }
        for (const p of l.points) {
          const x = u.valToPos(p[0], "x", true) + (named ? 0.6 * step * ((i + 0.5) / n - 0.5) : 0);
          if (p[3] > p[2]) {
            c.globalAlpha = 0.55; c.beginPath();
            c.moveTo(x, u.valToPos(scale.y ? Math.max(p[2], 1e-300) : p[2], "y", true)); c.lineTo(x, u.valToPos(p[3], "y", true));
            c.stroke(); c.globalAlpha = 1;
          }
          if (named) { c.beginPath(); c.arc(x, u.valToPos(p[1], "y", true), 4 * dot, 0, 2 * Math.PI); c.fill(); }
        }
        // A point that is looked for.
        if (l.marked) { c.beginPath(); c.arc(u.valToPos(l.marked[0], "x", true), u.valToPos(l.marked[1], "y", true), 8 * dot, 0, 2 * Math.PI); c.stroke(); }
      });
      c.restore();
    }

    function draw() {
      if (drawn) drawn.destroy();
      place.replaceChildren();
      keys.querySelectorAll(".dot").forEach(d => { d.style.background = stroke(+d.dataset.line); });
      const width = root.dataset.print ? 640 : Math.max(200, Math.floor(place.clientWidth));
      const longest = Math.max(0, ...plot.x.names.map(n => n.length));
      const slanted = named && longest * 7 * plot.x.names.length > width - 70;
      const ink = colour("--soft"), grid = { stroke: colour("--line"), width: 1 };
      const axis = { stroke: ink, grid, ticks: grid, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif" };
      const room = u => named ? 99 : u.bbox.width / devicePixelRatio / 46;
      const xmarks = (u, _, low, high) => {
        if (named) return plot.x.names.map((_, i) => i);
        // Few sizes are marked themselves, as far as they have room.
        if (xs.length <= 14 && xs.every(x => x > 0 && (/[KM]$/.test(size(x)) || Number.isInteger(Math.log2(x))))) {
          const on = scale.x ? Math.log : x => x;
          let last = -1e9;
          return xs.filter(x => {
            const px = (on(x) - on(low)) / (on(high) - on(low)) * u.bbox.width / devicePixelRatio;
            if (px - last < 38) return false;
            last = px; return true;
          });
        }
        return marks(low, high, scale.x, room(u));
      };
      const series = plot.lines.map((l, i) => ({
        label: l.name, stroke: stroke(i), width: l.elsewhere ? 1 : 2, dash: l.elsewhere ? [6, 4] : undefined, show: on[i],
        spanGaps: true, paths: named || turns ? () => null : undefined,
        points: { show: !named && !dense && !turns, size: 7, fill: stroke(i) },
      }));
      drawn = new uPlot({
        // Three stand on a sheet of paper.
        width, height: root.dataset.print ? (slanted ? 330 : 236) : (slanted ? 330 : 280) + (width > 700 ? 60 : 0),
        padding: [12, 12, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { show: !named && !turns } },
        scales: {
          x: { time: false, distr: scale.x ? 3 : 1, range: () => range(0) },
          y: { distr: scale.y ? 3 : 1, range: () => range(1) },
        },
        axes: [
          { ...axis, label: plot.x.label, labelSize: 20, splits: xmarks, filter: (_, v) => v, size: slanted ? longest * 7 + 14 : 34,
            rotate: slanted ? -90 : 0, values: (_, v) => v.map(x => named ? plot.x.names[x] : size(x)) },
          { ...axis, label: plot.y.label, labelSize: 20, size: 52, filter: (_, v) => v,
            splits: (u, _, low, high) => marks(low, high, scale.y, u.bbox.height / devicePixelRatio / 28),
            values: (_, v) => v.map(mark) },
        ],
        series: [{}, ...series],
        hooks: { draw: [intervals], setCursor: [u => { if (u.cursor.left >= 0) say(u.cursor.idx); }] },
      }, data, place);
      if (index !== null) say(index);
    }

    place.tabIndex = 0;
    place.setAttribute("role", "application");
    place.setAttribute("aria-label", `${plot.title}; arrow keys tell the values`);
    place.addEventListener("keydown", e => {
      const last = xs.length - 1, i = index ?? -1;
      const to = { ArrowRight: Math.min(last, i + 1), ArrowLeft: Math.max(0, i - 1), Home: 0, End: last }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      drawn.setCursor({ left: drawn.valToPos(xs[to], "x"), top: 20 });
      say(to);
    });
    draw();
    let width = place.clientWidth;
    new ResizeObserver(() => {
      if (!root.dataset.print && Math.abs(place.clientWidth - width) > 1) { width = place.clientWidth; draw(); }
    }).observe(place);
    all.push(draw);
  }

  document.querySelectorAll("figure.plot").forEach(figure);
  const again = () => all.forEach(draw => draw());
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", again);
  document.getElementById("theme").addEventListener("click", () => {
    const is = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = is === "dark" ? "light" : "dark";
    again();
  });
  // Paper is light, whatever the screen is, and shows what is folded.
  addEventListener("beforeprint", () => {
    root.dataset.print = "1";
    document.querySelectorAll("details:not([open])").forEach(d => { d.open = true; d.dataset.folded = "1"; });
    again();
  });
  addEventListener("afterprint", () => {
    delete root.dataset.print;
    document.querySelectorAll("details[data-folded]").forEach(d => { d.open = false; delete d.dataset.folded; });
    again();
  });
})();

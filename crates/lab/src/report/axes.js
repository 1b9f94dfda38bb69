// The axes of the plots: marks with their unit, room for them, and no two names on each other.
// Invariant: where marks stand, and what is drawn, is as report.js has it; only their text and their room change.
// Not here: plots, keys and values (assets/report.js, which makes every plot by the name that is set here).
{
  const LETTER = 7.2, LINE = 13, ASIDE = 28;
  const Plain = uPlot;

  // The number in the largest unit of which there is one; units.rs has the steps and the same rule.
  const mark = (v, steps) => {
    const fits = steps.filter(s => Math.abs(v) >= s.from * (1 - 1e-9)).pop() || steps[0];
    const n = v === 0 || !fits ? v : v / fits.size;
    return String(Number(n.toPrecision(4))) + (v === 0 || !fits ? '' : fits.name);
  };

  // Marks that are left empty stay so, and powers of two are told by their own letters.
  const texts = (values, steps) => (u, splits, ...rest) => {
    const were = values(u, splits, ...rest);
    return splits.map((v, i) => were[i] == null || /^$|[KMG]$/.test(were[i]) ? were[i] : mark(v, steps));
  };

  // Of names that stand upright, one in so many that each has the height of a line.
  const thinned = values => (u, splits, ...rest) => {
    const were = values(u, splits, ...rest);
    const shown = were.filter(t => t).length, wide = u.bbox.width / devicePixelRatio;
    const every = Math.max(1, Math.ceil(LINE * shown / Math.max(wide, 1)));
    let seen = 0;
    return were.map(t => (t && seen++ % every ? '' : t));
  };

  const room = (u, values) => 18 + LETTER * Math.max(2, ...(values || []).map(t => String(t ?? '').length));

  const told = (options, at) => {
    const figure = at && at.closest && at.closest('figure');
    const data = figure && figure.querySelector('script');
    if (!data || !options.axes) return;
    const plot = JSON.parse(data.textContent);
    ['x', 'y'].forEach((which, i) => {
      const axis = options.axes[i], { names, steps } = plot[which];
      if (!axis || typeof axis.values !== 'function') return;
      axis.values = names.length ? thinned(axis.values) : texts(axis.values, steps);
      axis.label = plot[which].title;
      if (i === 1) axis.size = room;
    });
    // The last mark of the horizontal axis stands half beyond the drawing.
    const padding = options.padding || [null, null, null, null];
    options.padding = padding.map((p, i) => (i === 1 && typeof p !== 'function' ? Math.max(p || 0, ASIDE) : p));
    // So does the last of the points that stand beside each other.
    const n = plot.x.names.length, scales = options.scales;
    if (n && scales && scales.x) scales.x = { ...scales.x, range: () => [-0.6, n - 0.4] };
  };

  uPlot = function (options, data, at) {
    told(options, at);
    return new Plain(options, data, at);
  };
  Object.assign(uPlot, Plain);
}

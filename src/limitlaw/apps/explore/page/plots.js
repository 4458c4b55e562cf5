"use strict";
// How curves look: plotly.js with the colours of the page, and pictures of several plots as one PNG.
const plots = (() => {
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const config = {
    responsive: true,
    displayModeBar: false,
    showSendToCloud: false,
    plotlyServerURL: "",
    scrollZoom: false,
  };

  const colours = () => {
    const probe = document.createElement("span");
    document.body.append(probe);
    const found = {};
    for (const name of ["paper", "ink", "soft", "grid", "exact", "limit", "gaussian", "bars"]) {
      probe.style.color = `var(--${name})`;
      found[name] = getComputedStyle(probe).color;
    }
    probe.remove();
    return found;
  };

  const axis = (colour, more) => ({
    gridcolor: colour.grid, linecolor: colour.soft, zeroline: false, showline: true, ticks: "outside", tickcolor: colour.soft,
    automargin: true, ...more,
  });

  const layout = (colour, x, y, more) => ({
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour.ink },
    margin: { l: 52, r: 10, t: 8, b: 42 },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false, hovermode: "closest", hoverlabel: { namelength: -1 }, dragmode: touch ? false : "zoom",
    xaxis: axis(colour, x), yaxis: axis(colour, y), ...more,
  });

  const line = (colour, width, dash) => ({ color: colour, width, dash });

  // The densities of the laws that are known; what is not, is not drawn.
  const densities = (known) => {
    const colour = colours();
    const looks = [
      ["exact", "exact", line(colour.exact, 3, "solid")],
      ["limit", "n → ∞", line(colour.limit, 2.2, "dash")],
      ["gaussian", "∞ heads", line(colour.gaussian, 2, "dot")],
    ];
    const traces = [], bars = [], points = [];
    if (known.simulated) {
      const { x, density } = known.simulated;
      bars.push({ type: "bar", name: "simulated", x, y: density, width: x[1] - x[0], marker: { color: colour.bars, line: { width: 0 } } });
      points.push({ type: "scatter", mode: "markers", name: "simulated", x, y: density.map((p) => p || null), marker: { color: colour.soft, size: 7, symbol: "circle-open" } });
    }
    for (const [key, name, look] of looks) {
      if (known[key]) traces.push({ type: "scatter", mode: "lines", name, x: known[key].x, y: known[key].density, line: look });
    }
    if (!traces.length) return;
    const sd = known.sd, ticks = [-6, -4, -2, 0, 2, 4, 6];
    const x = (reach) => ({
      range: [-reach * sd, reach * sd], title: { text: "y, in standard deviations σ of the limit", standoff: 6 },
      tickvals: ticks.map((t) => t * sd), ticktext: ticks.map((t) => (t ? `${t < 0 ? "−" : ""}${Math.abs(t)}σ` : "0")),
    });
    const least = Math.min(...["exact", "limit", "gaussian"].flatMap((key) => (known[key] ? known[key].density : [])).filter((p) => p > 0));
    const most = Math.max(...[...traces, ...bars].flatMap((t) => t.y).filter((p) => p > 0));
    const floor = Math.max(Math.log10(least), Math.log10(most) - 9);
    Plotly.react("plot-linear", [...bars, ...traces], layout(colour, x(4), { rangemode: "tozero" }, { bargap: 0 }), config);
    Plotly.react("plot-log", [...points, ...traces], layout(colour, x(6), {
      type: "log", exponentformat: "power", dtick: 1, minor: { ticks: "" }, range: [floor, Math.log10(2 * most)],
    }), config);
  };

  // One plot for each statistic of a depth, in places that are made where they are missing.
  const depth = (traces) => {
    const colour = colours(), place = document.getElementById("depth-plots");
    const looks = [[colour.limit, "dash", "circle"], [colour.exact, "solid", "diamond"]];
    const wanted = new Set(Object.keys(traces[0].columns).map((name) => `plot-depth-${name}`));
    place.querySelectorAll(".plot").forEach((plot) => wanted.has(plot.id) || plot.closest("figure").remove());
    for (const [name, first] of Object.entries(traces[0].columns)) {
      const id = `plot-depth-${name}`;
      if (!document.getElementById(id)) {
        const figure = document.createElement("figure"), caption = document.createElement("figcaption"), plot = document.createElement("div");
        caption.textContent = first.label[0].toUpperCase() + first.label.slice(1);
        Object.assign(plot, { id, className: "plot" });
        plot.setAttribute("role", "img");
        plot.setAttribute("aria-label", `${first.label} by block; the table below has the figures`);
        figure.append(caption, plot);
        place.append(figure);
      }
      const known = first.value.some((v) => v !== null);
      const data = traces.map((trace, i) => ({
        type: "scatter", mode: "lines+markers", name: trace.label, x: trace.layers, y: trace.columns[name].value,
        error_y: { type: "data", array: trace.columns[name].error, thickness: 1, width: 2 },
        line: line(looks[i][0], 2, looks[i][1]), marker: { size: 5, symbol: looks[i][2] },
      }));
      const nothing = { text: "not defined for one token", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 };
      Plotly.react(id, data, layout(colour, { title: { text: "block", standoff: 4 }, rangemode: "tozero" }, { tickformat: "~g", exponentformat: "power" },
        { showlegend: traces.length > 1, legend: { orientation: "h", x: 1, xanchor: "right", y: 1.02, yanchor: "bottom" }, annotations: known ? [] : [nothing],
          margin: { l: 52, r: 10, t: traces.length > 1 ? 26 : 8, b: 42 } }), config);
    }
  };

  const loaded = (source) => new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = reject;
    image.src = source;
  });

  // All plots below an element in two columns, with their captions, as a PNG.
  const png = async (element, title) => {
    const colour = colours(), width = 700, height = 440, head = 64, caption = 30, scale = 2;
    const figures = [...element.querySelectorAll("figure")];
    const canvas = document.createElement("canvas");
    canvas.width = 2 * width * scale;
    canvas.height = (head + Math.ceil(figures.length / 2) * (height + caption)) * scale;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.fillStyle = colour.paper;
    context.fillRect(0, 0, canvas.width, canvas.height);
    const font = getComputedStyle(document.body).fontFamily;
    const write = (text, size, x, y, weight = "400", ink = colour.ink) => {
      context.font = `${weight} ${size}px ${font}`;
      context.fillStyle = ink;
      context.fillText(text, x, y, 2 * width - x - 12);
    };
    write(title, 17, 16, 26, "600");
    let at = 16;
    for (const item of element.querySelectorAll(".legend li:not([hidden])")) {
      const key = item.classList[0];
      context.strokeStyle = key === "simulated" ? colour.bars : colour[key];
      context.lineWidth = key === "simulated" ? 10 : 3;
      context.setLineDash({ limit: [8, 4], gaussian: [2, 4] }[key] || []);
      context.beginPath();
      context.moveTo(at, 46);
      context.lineTo(at + 30, 46);
      context.stroke();
      write(item.textContent, 14, at + 38, 51);
      at += 60 + context.measureText(item.textContent).width;
    }
    for (const [i, figure] of figures.entries()) {
      const image = await loaded(await Plotly.toImage(figure.querySelector(".plot"), { format: "png", width, height, scale }));
      const x = (i % 2) * width, y = head + Math.floor(i / 2) * (height + caption);
      write(figure.querySelector("figcaption").textContent, 15, x + 16, y + 18, "600");
      context.drawImage(image, x, y + caption, width, height);
    }
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  };

  return { densities, depth, png };
})();

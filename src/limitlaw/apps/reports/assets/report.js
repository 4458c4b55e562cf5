"use strict";
(() => {
  const plots = JSON.parse(document.getElementById("plots").textContent);
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const config = {
    responsive: true,
    displayModeBar: touch ? false : "hover",
    displaylogo: false,
    showSendToCloud: false,
    plotlyServerURL: "",
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  };
  for (const [id, plot] of Object.entries(plots)) {
    const { layout } = plot;
    if (touch) layout.dragmode = false; // a finger scrolls the page
    if (window.innerWidth < 500) layout.xaxis.tickfont = { size: 10 };
    Plotly.newPlot(id, plot.data, layout, { ...config, toImageButtonOptions: { scale: 2, filename: id } });
  }
  document.querySelectorAll(".legend button").forEach((button) => {
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      for (const plot of button.closest("figure").querySelectorAll(".plot")) {
        const which = plot.data.flatMap((trace, i) => (trace.name === button.dataset.label ? [i] : []));
        if (which.length) Plotly.restyle(plot, { visible: shown }, which);
      }
    });
  });
  const fit = () => document.querySelectorAll(".plot").forEach((plot) => Plotly.Plots.resize(plot));
  window.addEventListener("beforeprint", fit);
  window.addEventListener("afterprint", fit);
})();

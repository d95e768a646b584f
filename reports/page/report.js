// Draws the page's charts from its data block. Colours come from the style sheet, and the charts are
// drawn again when the reader's colour scheme changes.
(function () {
  "use strict";
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const drawn = [];

  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const seriesColour = (index) => css("--series-" + (1 + (index % 6)));
  const translucent = (hex) => hex + "2e";

  function scaled(value, units, step) {
    let unit = 0;
    while (Math.abs(value) >= step && unit + 1 < units.length) {
      value /= step;
      ++unit;
    }
    return Number(value.toPrecision(3)) + " " + units[unit];
  }
  const bytesText = (value) => scaled(value, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
  function secondsText(value) {
    if (value >= 1) return Number(value.toPrecision(3)) + " s";
    return scaled(value * 1e9, ["ns", "µs", "ms"], 1000);
  }
  const plainText = (value) =>
    Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
      ? value.toExponential(2)
      : Number(value.toPrecision(4)).toLocaleString("en");
  function textOf(axis, value) {
    if (axis.scale === "bytes") return bytesText(value);
    return axis.scale === "seconds" ? secondsText(value) : plainText(value);
  }

  // Powers of two that are not crowded; decades otherwise.
  function byteTicks(scale) {
    const low = Math.ceil(Math.log2(scale.min) - 1e-9);
    const high = Math.floor(Math.log2(scale.max) + 1e-9);
    const stride = Math.max(1, Math.ceil((high - low + 1) / 9));
    scale.ticks = [];
    for (let power = low; power <= high; power += stride) scale.ticks.push({value: 2 ** power});
  }
  function decadeTicks(scale) {
    const low = Math.floor(Math.log10(scale.min));
    const high = Math.ceil(Math.log10(scale.max));
    const factors = high - low <= 3 ? [1, 2, 5] : [1];
    scale.ticks = [];
    for (let power = low; power <= high; ++power) {
      for (const factor of factors) {
        const value = factor * 10 ** power;
        if (value >= scale.min && value <= scale.max) scale.ticks.push({value});
      }
    }
  }

  function chartScale(axis) {
    const logarithmic = axis.scale !== "linear";
    const scale = {
      type: logarithmic ? "logarithmic" : "linear",
      title: {display: axis.label !== "", text: axis.label, color: css("--muted")},
      grid: {color: css("--line")},
      border: {color: css("--line")},
      ticks: {color: css("--muted"), maxRotation: 0, callback: (value) => textOf(axis, value)},
    };
    if (logarithmic) scale.afterBuildTicks = axis.scale === "bytes" ? byteTicks : decadeTicks;
    return scale;
  }

  function options(spec, valueAxis) {
    return {
      responsive: true,
      maintainAspectRatio: false,
      animation: false,
      plugins: {
        legend: {
          display: true,
          position: "bottom",
          labels: {
            color: css("--text"),
            boxWidth: 22,
            boxHeight: 2,
            filter: (item) => !item.text.startsWith("\u0000"),
          },
        },
        tooltip: {
          filter: (item) => !item.dataset.label.startsWith("\u0000"),
          callbacks: {
            label: (item) =>
              item.dataset.label + ": " + textOf(valueAxis, item.raw.y ?? item.raw),
          },
        },
      },
    };
  }

  // A line is one data set; its band is two invisible ones around it, filled between.
  function lineDatasets(series, index) {
    const colour = seriesColour(series.like ?? index);
    const many = series.points.length > 60;
    const line = {
      label: series.label,
      data: series.points.map((p) => ({x: p[0], y: p[1]})),
      borderColor: colour,
      backgroundColor: colour,
      borderWidth: series.style === "dashed" ? 1.5 : 2,
      borderDash: series.style === "dashed" ? [6, 4] : [],
      pointRadius: series.style === "dashed" || (many && series.style !== "points") ? 0 : 3,
      pointHitRadius: 8,
      tension: 0,
    };
    if (!series.band) return [line];
    const edge = (column, fill) => ({
      label: "\u0000" + series.label,
      data: series.points.map((p) => ({x: p[0], y: p[column]})),
      borderWidth: 0,
      pointRadius: 0,
      pointHitRadius: 0,
      backgroundColor: translucent(colour),
      fill,
    });
    return [line, edge(2, false), edge(3, "-1")];
  }

  function lineChart(spec) {
    const config = options(spec, spec.y);
    config.plugins.legend.display = spec.series.length > 1;
    config.interaction = {mode: "nearest", axis: "x", intersect: false};
    config.scales = {x: chartScale(spec.x), y: chartScale(spec.y)};
    if (spec.x.scale === "bytes") {
      // A sweep fills its axis from end to end.
      const sizes = spec.series.flatMap((series) => series.points.map((p) => p[0]));
      config.scales.x.min = Math.min(...sizes);
      config.scales.x.max = Math.max(...sizes);
    }
    config.plugins.tooltip.callbacks.title = (items) =>
      items.length ? spec.x.label + " " + textOf(spec.x, items[0].raw.x) : "";
    return {
      type: "line",
      data: {datasets: spec.series.flatMap(lineDatasets)},
      options: config,
    };
  }

  function barChart(spec) {
    const config = options(spec, spec.x);
    config.indexAxis = "y";
    config.plugins.legend.labels.boxHeight = 10;
    config.plugins.legend.display = spec.bars.length > 1;
    config.scales = {
      x: Object.assign(chartScale(spec.x), {beginAtZero: true}),
      y: {grid: {display: false}, ticks: {color: css("--text")}},
    };
    return {
      type: "bar",
      data: {
        labels: spec.categories,
        datasets: spec.bars.map((bars) => ({
          label: bars.label,
          data: bars.values,
          // Predictions are the muted colour, so that what was measured stands out.
          backgroundColor: bars.label === "predicted" ? css("--series-6") : seriesColour(0),
          maxBarThickness: 16,
        })),
      },
      options: config,
    };
  }

  function draw() {
    drawn.splice(0).forEach((chart) => chart.destroy());
    specs.forEach((spec, index) => {
      const canvas = document.getElementById("chart-" + index);
      drawn.push(new Chart(canvas, spec.kind === "bars" ? barChart(spec) : lineChart(spec)));
    });
    document.documentElement.dataset.charts = String(drawn.length);
  }

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
})();

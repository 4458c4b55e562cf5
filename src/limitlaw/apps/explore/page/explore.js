"use strict";
// The page: settings ↔ address, questions to the server, and what it answers.
(() => {
  const $ = (id) => document.getElementById(id);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const page = [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, "0")).join("");
  const form = $("settings");
  const controls = Object.fromEntries(all("[name]", form).map((control) => [control.name, control]));
  const initial = Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value]));
  const asks = { law: ["preview", "exact", "limit", "more"], depth: ["depth"], code: ["program"] };
  let query = ""; // of the settings, as the server reads it
  let tab = "law";
  let known = {}; // the laws that are drawn
  let followed = null; // the traces that are drawn
  const answered = {}; // the query that each kind of answer shown is of
  const waiting = new Map(); // the question of each kind that is open
  const refused = new Map(); // what the server said against each kind

  // --- settings and address -------------------------------------------------------------------------------------------

  const sliders = Object.fromEntries(all("input[type=range]", form).map((slider) => {
    const ticks = slider.dataset.ticks.split(" ").map(Number);
    Object.assign(slider, { min: 0, max: ticks.length - 1, step: 1 });
    return [slider.id, { slider, ticks }];
  }));

  const place = (name) => {
    const { slider, ticks } = sliders[name], text = controls[name].value;
    if (text === "") return;
    const nearest = ticks.map((t) => Math.abs(t - Number(text)));
    slider.value = nearest.indexOf(Math.min(...nearest));
    slider.setAttribute("aria-valuetext", text);
  };

  const read = () => new URLSearchParams(
    Object.entries(controls).filter(([name, control]) => control.value !== initial[name]).map(([name, control]) => [name, control.value]),
  );

  const lastTokens = { value: Number(initial.tokens) };
  const followTokens = () => { // the last token stays the last one
    const tokens = Number(controls.tokens.value), token = Number(controls.token.value);
    if (!tokens) return;
    if (token === lastTokens.value - 1 || token >= tokens) controls.token.value = tokens - 1;
    lastTokens.value = tokens;
    place("token");
  };

  const setAddress = () => {
    const shown = new URLSearchParams(query);
    if (tab !== "law") shown.set("tab", tab);
    const text = shown.toString();
    history.replaceState(null, "", text ? `?${text}` : location.pathname);
  };

  const changed = () => {
    query = read().toString();
    if (known.simulated && known.simulated.query !== query) forgetSimulation();
    setAddress();
    refresh();
  };

  const fromAddress = () => {
    const given = new URLSearchParams(location.search);
    const wanted = given.get("tab");
    given.delete("tab");
    for (const [name, text] of given) if (controls[name]) controls[name].value = sliders[name] && isNaN(text) ? "" : text;
    Object.keys(sliders).forEach(place);
    lastTokens.value = Number(controls.tokens.value);
    query = given.toString(); // as it came: what is wrong with it, the server says
    show(asks[wanted] ? wanted : "law");
  };

  let soon = 0;
  form.addEventListener("input", (event) => {
    const { target } = event;
    if (sliders[target.id]) {
      controls[target.id].value = sliders[target.id].ticks[target.value];
      target.setAttribute("aria-valuetext", controls[target.id].value);
    } else if (sliders[target.name]) place(target.name);
    if ((target.name || target.id) === "tokens") followTokens();
    clearTimeout(soon);
    soon = setTimeout(changed, 25);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => {
    Object.keys(sliders).forEach(place);
    lastTokens.value = Number(controls.tokens.value);
    changed();
  }));

  // --- questions ------------------------------------------------------------------------------------------------------

  const address = (path, text = query) => `${path}?page=${page}${text ? `&${text}` : ""}`;

  const ask = async (kind, path = `/api/${kind}`) => {
    waiting.get(kind)?.abort.abort();
    const question = { abort: new AbortController(), query, since: performance.now() };
    waiting.set(kind, question);
    tell();
    try {
      const response = await fetch(address(path), { signal: question.abort.signal });
      if (response.status === 409 && waiting.get(kind) === question) { // an older question came later than this one
        await new Promise((resolve) => setTimeout(resolve, 50));
        return waiting.get(kind) === question ? ask(kind, path) : null;
      }
      if (!response.ok) throw new Error((await response.json()).error);
      const answer = path.startsWith("/api") ? await response.json() : await response.blob();
      if (waiting.get(kind) !== question) return null;
      refused.delete(kind);
      return answer;
    } catch (error) {
      if (error.name === "AbortError" || waiting.get(kind) !== question) return null;
      const gone = error instanceof TypeError ? "the server does not answer: is limitlaw explore still running?" : error.message;
      refused.set(kind, gone);
      missing(kind);
      return null;
    } finally {
      if (waiting.get(kind) === question) {
        waiting.delete(kind);
        if (!refused.has(kind)) last.push(performance.now() - question.since);
        tell();
      }
    }
  };

  const last = [];
  const tell = () => {
    const status = $("status");
    document.body.dataset.waiting = waiting.size; // questions that are open
    if (waiting.size) {
      clearTimeout(tell.later);
      tell.later = setTimeout(() => {
        if (!waiting.size) return;
        status.textContent = "computing …";
        status.classList.add("busy");
        const curves = ["preview", "exact", "depth"].some((kind) => waiting.has(kind));
        all(".plots").forEach((plot) => plot.classList.toggle("stale", curves));
      }, 120);
      tell.long ??= setTimeout(() => { $("cancel").hidden = !waiting.size; }, 1000); // who waits may change their mind
    } else {
      clearTimeout(tell.later);
      clearTimeout(tell.long);
      tell.long = undefined;
      $("cancel").hidden = true;
      status.classList.remove("busy");
      all(".plots").forEach((plot) => plot.classList.toggle("stale", refused.has("preview") || refused.has("depth")));
      const took = Math.max(...last.splice(0));
      status.textContent = took < 0 ? "" : took < 1000 ? `answered in ${Math.round(took)} ms` : `answered in ${(took / 1000).toFixed(1)} s`;
    }
    all("#panel-law .plots").forEach((plot) => { plot.hidden = refused.has("preview") && !known.sd; }); // nothing to see yet
    const messages = [...new Set(refused.values())];
    $("message").hidden = !messages.length;
    if ($("message").textContent !== messages.join(" ")) $("message").textContent = messages.join(" ");
    for (const name of Object.keys(controls)) {
      const wrong = messages.some((text) => text.startsWith(`${name} must`));
      $(`field-${name}`).classList.toggle("wrong", wrong);
      controls[name].toggleAttribute("aria-invalid", wrong);
    }
  };

  const refresh = () => {
    all('[data-show="width"]').forEach((span) => { span.textContent = controls.width.value; });
    for (const kind of [...refused.keys()]) if (!asks[tab].includes(kind)) refused.delete(kind);
    for (const [kind, question] of waiting) if (!asks[tab].includes(kind) || question.query !== query) { question.abort.abort(); waiting.delete(kind); }
    tell();
    for (const kind of asks[tab]) {
      if (answered[kind] === query && !refused.has(kind)) continue;
      old(kind);
      ask(kind).then((answer) => {
        if (!answer) return;
        answered[kind] = query;
        shown[kind](answer);
        document.body.dataset[kind] = query; // for whoever waits for it
      });
    }
  };

  // --- answers --------------------------------------------------------------------------------------------------------

  const slow = ["tail_3", "tail_5", "kl_gaussian", "kl_limit"]; // what `more` answers
  const old = (kind) => all("#numbers tbody td").forEach((cell) => { // cells that wait for this answer are dimmed
    const { law } = cell.dataset, { key } = cell.parentElement.dataset;
    const by = slow.includes(key) ? "more" : { exact: "exact", limit: "limit", gaussian: "limit" }[law];
    if (by === kind) cell.classList.add("stale");
  });
  const fill = (law, numbers, source) => {
    for (const [key, number] of Object.entries(numbers)) all(`[data-key="${key}"] [data-law="${law}"]`).forEach((cell) => {
      cell.textContent = number.text;
      cell.classList.remove("stale");
    });
    if (source !== undefined) all(`.source [data-law="${law}"]`).forEach((cell) => {
      cell.textContent = source;
      cell.classList.remove("stale");
    });
  };

  const blank = (law, keys) => all(`#numbers [data-law="${law}"]`).forEach((cell) => {
    const key = cell.parentElement.dataset.key;
    if (keys && !keys.includes(key)) return;
    cell.textContent = key ? "–" : "";
    cell.classList.remove("stale");
  });

  const shown = {
    preview: (answer) => { if (answered.limit !== query) shown.limit(answer); },
    limit: ({ sd, limit, gaussian }) => {
      Object.assign(known, { sd, limit, gaussian });
      fill("limit", limit.numbers, limit.source);
      fill("gaussian", gaussian.numbers, gaussian.source);
      plots.densities(known);
    },
    exact: (answer) => {
      known.exact = answer;
      fill("exact", answer.numbers, answer.source);
      if (known.sd) plots.densities(known);
    },
    more: (answer) => Object.entries(answer).forEach(([law, numbers]) => fill(law, numbers)),
    depth: ({ traces }) => {
      followed = traces;
      $("depth-title").textContent = traces.map((trace) => trace.title).join(" — ");
      plots.depth(traces);
      depthTable(traces);
    },
    program: (answer) => {
      $("code").textContent = answer.code;
      $("depth-code").textContent = answer.depth_code;
      $("text").textContent = answer.text;
      $("depth-text").textContent = answer.depth_text;
      $("graph").replaceChildren(document.importNode(new DOMParser().parseFromString(answer.svg, "image/svg+xml").documentElement, true));
    },
  };

  // An answer that was refused: nothing old is left beside new numbers.
  const missing = (kind) => {
    delete answered[kind];
    if (kind === "exact") {
      delete known.exact;
      blank("exact");
      plots.densities(known);
    }
    if (kind === "more") ["exact", "limit", "gaussian"].forEach((law) => blank(law, slow));
  };

  const row = (cells, tag) => {
    const line = document.createElement("tr");
    cells.forEach((text, i) => {
      const cell = document.createElement(i === 0 || tag === "th" ? "th" : "td");
      if (cell.tagName === "TH") cell.scope = tag === "th" ? "col" : "row";
      cell.textContent = text;
      line.append(cell);
    });
    return line;
  };

  const depthTable = (traces) => {
    const table = $("depth-numbers"), several = traces.length > 1;
    const labels = Object.values(traces[0].columns).map((column) => column.label);
    const head = document.createElement("thead"), body = document.createElement("tbody");
    head.append(row(["block", ...traces.flatMap((trace) => labels.map((label) => (several ? `${label}, ${trace.label}` : label)))], "th"));
    traces[0].rows.forEach((cells, i) => body.append(row([cells[0], ...traces.flatMap((trace) => trace.rows[i].slice(1))], "td")));
    table.replaceChildren(head, body);
  };

  // --- simulation -----------------------------------------------------------------------------------------------------

  const simulating = (on) => {
    $("simulate").disabled = on;
    $("stop").hidden = !on;
  };

  const withSimulation = (on) => {
    all('#numbers .simulated, #numbers [data-law="simulated"]').forEach((cell) => { cell.hidden = !on; });
    $("legend-simulated").hidden = !on;
  };

  const forgetSimulation = () => {
    delete known.simulated;
    refused.delete("simulated");
    withSimulation(false);
    if (known.sd) plots.densities(known);
  };

  $("simulate").addEventListener("click", async () => {
    const of = query;
    simulating(true);
    const answer = await ask("simulated");
    simulating(false);
    if (!answer || of !== query) return;
    known.simulated = { ...answer, query: of };
    $("legend-simulated").textContent = `simulated: ${answer.source}`;
    fill("simulated", answer.numbers, answer.source);
    withSimulation(true);
    plots.densities(known);
    document.body.dataset.simulated = of;
  });

  $("stop").addEventListener("click", () => {
    waiting.get("simulated")?.abort.abort();
    waiting.delete("simulated");
    fetch(address("/api/stop/simulated"), { method: "POST" });
    tell();
    simulating(false);
    $("simulate").focus();
  });

  // All that is computed for this page: the server ends it at its next batch of draws.
  $("cancel").addEventListener("click", () => {
    for (const [kind, question] of waiting) {
      question.abort.abort();
      fetch(address(`/api/stop/${kind}`), { method: "POST" });
      if (!asks[tab].includes(kind)) continue;
      refused.set(kind, "cancelled: change a setting to compute again");
      missing(kind);
    }
    waiting.clear();
    last.length = 0;
    simulating(false);
    tell();
    $("main").focus();
  });

  // --- tabs -----------------------------------------------------------------------------------------------------------

  const tabs = all('[role="tab"]');
  const show = (name) => {
    tab = name;
    for (const button of tabs) {
      const on = button.id === `tab-${name}`;
      button.setAttribute("aria-selected", on);
      button.tabIndex = on ? 0 : -1;
      $(button.getAttribute("aria-controls")).hidden = !on;
    }
    $("depth-settings").hidden = name === "law";
    document.body.dataset.tab = name;
    setAddress();
    refresh();
    all(".plot", $(`panel-${name}`)).forEach((plot) => { if (plot.data) Plotly.Plots.resize(plot); });
  };
  tabs.forEach((button, i) => {
    button.addEventListener("click", () => show(button.id.slice(4)));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const next = step ? (i + step + tabs.length) % tabs.length : { Home: 0, End: tabs.length - 1 }[event.key];
      if (next === undefined) return;
      event.preventDefault();
      show(tabs[next].id.slice(4));
      tabs[next].focus();
    });
  });

  // --- files, link, theme ---------------------------------------------------------------------------------------------

  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  all("[data-file]").forEach((button) => button.addEventListener("click", async () => {
    const name = button.dataset.file;
    const blob = await ask(name, `/download/${name}`);
    if (blob) save(blob, `limitlaw-${name}`);
  }));
  all("[data-png]").forEach((button) => button.addEventListener("click", async () => {
    const name = button.dataset.png;
    save(await plots.png($(`panel-${name}`), `limitlaw: ${query.replaceAll("&", ", ") || "defaults"}`), `limitlaw-${name}.png`);
  }));

  const copy = async (button, text) => {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Select and copy it by hand";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  };
  all("[data-copy]").forEach((button) => button.addEventListener("click", () => copy(button, $(button.dataset.copy).textContent)));
  $("share").addEventListener("click", (event) => copy(event.target, location.href));

  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  const redraw = () => {
    const dark = (document.documentElement.dataset.theme || (preferred.matches ? "dark" : "light")) === "dark";
    $("theme").setAttribute("aria-pressed", dark);
    if (known.sd) plots.densities(known);
    if (followed) plots.depth(followed);
  };
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = $("theme").getAttribute("aria-pressed") === "true" ? "light" : "dark";
    redraw();
  });
  preferred.addEventListener("change", redraw);

  window.addEventListener("popstate", fromAddress);
  fromAddress();
  redraw();
})();

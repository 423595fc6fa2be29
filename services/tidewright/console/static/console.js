// What the console does in a browser: scrubbing, keys, and showing what comes. Without it every page works by its links and forms.
"use strict";

(() => {
  const EVERY_MS = 1000; // between two looks at what came
  const LONGEST_MS = 10000; // the same, where what came is not shown yet
  const STEPS = 200; // that the arrow keys have from one end to the other
  let asked = 0;

  const form = () => document.getElementById("time");
  const stamp = (seconds) => new Date(seconds * 1000).toISOString();
  const readable = (seconds) => stamp(seconds).slice(0, 19).replace("T", " ");

  function url(at) {
    const target = new URL(location.href);
    target.hash = "";
    if (at === "") target.searchParams.delete("at");
    else target.searchParams.set("at", at);
    return target;
  }

  // Put another moment of the page in the place of what is shown, without its frame.
  async function show(target, keep) {
    const mine = ++asked;
    let response;
    try {
      response = await fetch(target, { headers: { "X-Part": "main" }, credentials: "same-origin" });
    } catch {
      return;
    }
    if (response.status === 401) return location.reload();
    const text = await response.text();
    if (mine !== asked) return; // something else was asked for meanwhile
    const page = new DOMParser().parseFromString(text, "text/html");
    const main = page.getElementById("main");
    if (!main) return;
    const open = [...document.querySelectorAll("#main details[open] > summary")].map((one) => one.textContent);
    const field = document.activeElement;
    const typing = field && field.closest && field.closest("#main form") ? field : null;
    if (typing && keep) return; // nobody's typing is taken away by what comes
    document.getElementById("main").replaceWith(document.adoptNode(main));
    for (const summary of document.querySelectorAll("#main details > summary")) {
      if (open.includes(summary.textContent)) summary.parentElement.open = true;
    }
    const time = page.getElementById("time");
    if (time && form()) {
      const focused = document.activeElement && document.activeElement.id;
      const edited = focused === "at" ? document.getElementById("at").value : null;
      const dragging = focused === "slider" && held;
      if (!dragging && edited === null) {
        form().replaceWith(document.adoptNode(time));
        if (focused && document.getElementById(focused)) document.getElementById(focused).focus({ preventScroll: true });
      }
    }
    const menu = page.querySelector(".bar nav");
    if (menu) document.querySelector(".bar nav").replaceWith(document.adoptNode(menu));
    document.title = page.title;
    if (page.body.dataset.live) document.body.dataset.live = page.body.dataset.live;
    else delete document.body.dataset.live;
    if (!keep) history.replaceState(null, "", target);
    follow();
  }

  // -- the moment -------------------------------------------------------------------------------

  let held = false;
  let waiting = null;

  function momentOf(place) {
    const { first, last } = form().dataset;
    return Number(first) + ((Number(last) - Number(first)) * place) / 1000;
  }

  // A policy that is tried: each value stands in the URL, and the page comes again in its place.
  async function tried(moved) {
    const target = url(new URL(location.href).searchParams.get("at") || "");
    for (const [name, value] of new FormData(moved.form)) {
      if (name !== "at" && name !== "window") target.searchParams.set(name, value);
    }
    await show(target);
    document.getElementById(moved.id)?.focus({ preventScroll: true });
  }

  document.addEventListener("input", (event) => {
    if (event.target.form?.id === "sliders") {
      // A slider says more digits than anybody means; what is typed counts as it is.
      const [other, value] = event.target.type === "range"
        ? [event.target.id.replace("s-", "n-"), Number(Number(event.target.value).toPrecision(3))]
        : [event.target.id.replace("n-", "s-"), event.target.value];
      document.getElementById(other).value = value;
    }
    if (event.target.id !== "slider") return;
    held = true;
    const at = momentOf(Number(event.target.value));
    const atEnd = event.target.value === "1000";
    document.getElementById("at").value = atEnd ? "" : readable(at);
    event.target.setAttribute("aria-valuetext", `${readable(at)} UTC`);
    clearTimeout(waiting);
    waiting = setTimeout(() => show(url(atEnd ? "" : stamp(at))), 60);
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "slider") held = false;
    if (event.target.form?.id === "sliders") tried(event.target);
    if (event.target.name === "window" && event.target.form) event.target.form.requestSubmit();
  });

  function step(by) {
    const { first, last, at } = form().dataset;
    const next = Number(at) + ((Number(last) - Number(first)) * by) / STEPS;
    if (next >= Number(last)) return show(url(""));
    return show(url(stamp(Math.max(Number(first), next))));
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !form()) return;
    const tag = event.target.tagName;
    if (tag === "INPUT" || tag === "SELECT" || tag === "TEXTAREA") {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const scrolls = event.target.closest && event.target.closest("pre, .scroll");
    if (event.key === "ArrowLeft" && !scrolls) step(event.shiftKey ? -10 : -1);
    else if (event.key === "ArrowRight" && !scrolls) step(event.shiftKey ? 10 : 1);
    else if (event.key === "n") show(url(""));
    else if (event.key === "/") (document.getElementById("filter") || document.getElementById("at")).focus();
    else return;
    event.preventDefault();
  });

  // -- what comes -------------------------------------------------------------------------------

  let stream = null;
  let seen = null;
  let shownAt = 0;
  let due = null;

  // Whether what is shown speaks of less than what has come: an answer, or a part of it, may be of a moment ago, or have been lost.
  function behind() {
    const part = document.querySelector("#main [data-sequence]")?.dataset.sequence;
    const shown = part ?? document.querySelector(".seq")?.textContent.split(" ").pop();
    return document.body.dataset.live === "yes" && Number(shown) < Number(seen);
  }

  // Show what has come, now or as soon as the last look is long enough ago, and again until it is there.
  function look(pause) {
    due = setTimeout(async () => {
      shownAt = Date.now();
      if (document.body.dataset.live === "yes" && !held) await show(new URL(location.href), true);
      due = null;
      if (stream && behind()) look(Math.min(2 * pause, LONGEST_MS));
    }, Math.max(0, shownAt + pause - Date.now()));
  }

  function follow() {
    const live = document.body.dataset.live === "yes" && !document.hidden;
    if (!live && stream) {
      stream.close();
      stream = null;
    }
    if (!live || stream || !window.EventSource) return;
    stream = new EventSource(`${document.body.dataset.under || ""}/live`);
    stream.onmessage = (message) => {
      const known = seen;
      seen = message.data;
      if (known === null && document.querySelector(".seq")?.textContent === `seq ${seen}`) return;
      if (known !== seen && !due) look(EVERY_MS);
    };
  }

  document.addEventListener("visibilitychange", follow);

  // -- being let in -----------------------------------------------------------------------------

  document.addEventListener("submit", async (event) => {
    if (event.target.id !== "enter") return;
    event.preventDefault();
    const token = document.getElementById("token").value;
    const response = await fetch("/enter", { headers: { Authorization: `Bearer ${token}` }, redirect: "manual" });
    if (response.type === "opaqueredirect" || response.ok) {
      // Back to what was asked for, which is of this origin: a path alone, as `//name`, could be another host.
      const asked = new URL(location.href);
      asked.searchParams.delete("token");
      asked.hash = "";
      location.assign(asked.pathname === "/enter" ? "/" : asked);
    } else document.getElementById("refused").textContent = "This token does not hold.";
  });

  follow();
})();

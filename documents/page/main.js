// What is shown follows from the fragment alone.

const VIEWS = {
  overview: overviewView, options: optionsView, play: playView, clients: clientsView, redeploys: redeploysView,
  scoreboard: scoreboardView, costs: costsView, method: methodView, diff: diffView,
};

async function main() {
  const data = await unpacked();
  index(data);
  let playing;

  /** Change the state; `quietly` leaves no entry in the browser's history. */
  const set = (change, quietly) => {
    const fragment = fragmentOf({ ...known(data, stateOf(location.hash)).state, ...change });
    if (fragment === (location.hash || "#")) return show();
    history[quietly ? "replaceState" : "pushState"](null, "", fragment);
    show();
  };

  const show = () => {
    const { state, unknown } = known(data, stateOf(location.hash));
    const { view } = state;
    closeMenu();
    document.querySelectorAll("nav a").forEach((link) => {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
      link.href = fragmentOf({ ...DEFAULTS, policy: state.policy, view: link.dataset.view });
    });
    keepingFocus(() => document.getElementById("view").replaceChildren(
      ...[leftOut(unknown), VIEWS[view](data, state, set)].flat(3).filter(Boolean)));
    document.querySelector("[data-act=play]")?.addEventListener("click", play);
    const title = document.querySelector("#view h1").textContent;
    document.title = view === "overview" ? "mrtr-options" : `${title} · mrtr-options`;
    document.querySelector("meta[name=description]").content = title;
    document.body.dataset.view = view;
    document.body.dataset.ready = "yes";
  };

  const stop = () => { clearInterval(playing); playing = undefined; };
  const press = (key) => document.querySelector(`[data-key=${key}]:not([disabled])`)?.click();
  const play = () => {
    if (playing) return stop();
    if (stateOf(location.hash).step === "end") set({ step: "", round: "" }, true);
    playing = setInterval(() => {
      if (!document.querySelector("[data-key=forth]:not([disabled])")) return stop();
      press("forth");
    }, 700);
  };

  addEventListener("popstate", () => { stop(); show(); });
  addEventListener("keydown", (event) => {
    if (document.body.dataset.view !== "play" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, .menu, .scroll")) return;
    if (event.key === "ArrowLeft") press("back");
    else if (event.key === "ArrowRight") press("forth");
    else if (event.key === " " && !event.target.closest("button, a, [role=button]")) play();
    else return;
    event.preventDefault();
  });
  addEventListener("click", (event) => {
    if (!event.target.closest(".menu, .offer")) closeMenu();
  });
  show();
}

/** What of the address was not followed, in a sentence. */
function leftOut(unknown) {
  const named = unknown.slice(0, 5).map((each) => (each.length > 30 ? `${each.slice(0, 30)}…` : each)).join(", ");
  return unknown.length > 0 && h("p", { class: "unexplored", role: "status" },
    `Unknown in this link: ${named}${unknown.length > 5 ? ", …" : ""}. The rest is shown.`);
}

/** Draw again, and put the focus back where it was; on the heading where that is gone. */
function keepingFocus(draw) {
  const key = document.activeElement?.dataset?.key;
  draw();
  const heading = document.querySelector("#view h1");
  heading?.setAttribute("tabindex", "-1");
  if (key) (document.querySelector(`[data-key="${CSS.escape(key)}"]`) ?? heading)?.focus({ preventScroll: true });
}

main();

// What is shown always belongs to the current input.
//
// Everything that the user does begins a turn: it ends the one before, with its requests, and marks the page as busy at
// once. Only the current turn may change the page; when all that it shows is there, it settles, and the page is ready.
// `data-state` (busy or ready) and `data-turn` (the number of the last turn that settled) on the body say so to tests.

export class Failure extends Error {}

/** The turn is over: another one has begun, or the user stopped it. */
export class Ended extends Error {}

let current = null;
let begun = 0;

class Turn {
  constructor(number) {
    this.number = number;
    this.controller = new AbortController();
  }

  /** Throws unless this is still the current turn. */
  check() {
    if (current !== this) throw new Ended();
  }

  /** The service's answer, as JSON; `Failure` with words to show for anything else. */
  async ask(path, body) {
    const options = { signal: this.controller.signal, headers: { Accept: "application/json" }, cache: "no-store" };
    if (body !== undefined) {
      options.method = "POST";
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    let response, answer;
    try {
      response = await fetch(path, options);
      answer = await response.text();
    } catch {
      this.check();
      throw new Failure("The service did not answer. Is it still running, and can it be reached?");
    }
    this.check();
    const content = parsed(answer);
    if (!response.ok) {
      throw new Failure(content?.error ?? `The service answered with status ${response.status} and no explanation.`);
    }
    if (content === undefined) throw new Failure("The service's answer could not be read: it is not JSON.");
    return content;
  }

  /** A pause that ends with the turn. */
  async wait(milliseconds) {
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    this.check();
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Begin a turn and do its work; the page is ready when the work of the last turn is done, or has failed. */
export async function turn(work, { failed, finished }) {
  current?.controller.abort();
  const own = new Turn((begun += 1));
  current = own;
  document.body.dataset.state = "busy";
  try {
    await work(own);
    own.check();
  } catch (problem) {
    if (current !== own) return;
    if (!(problem instanceof Failure)) console.error(problem);
    failed(problem instanceof Failure ? problem.message : `This page has a fault: ${problem.message}`);
  }
  finished();
  document.body.dataset.turn = String(own.number);
  document.body.dataset.state = "ready";
}

/** End the current turn with a message. */
export function stop({ failed, finished }) {
  const own = current;
  current = null;
  own?.controller.abort();
  failed("Stopped before the service answered.");
  finished();
  document.body.dataset.turn = String(own?.number ?? begun);
  document.body.dataset.state = "ready";
}

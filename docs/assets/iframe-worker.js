// The search runs in a worker, and browsers start no workers for pages that were opened as files. For those, a hidden
// frame stands in for the worker: it runs the same script, and takes and sends the same messages.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.unsent = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      inner.document.open();
      inner.postMessage = (data) =>
        setTimeout(() => this.dispatchEvent(new MessageEvent("message", { data })));
      const script = inner.document.createElement("script");
      script.src = url;
      script.onload = () => {
        this.ready = true;
        this.unsent.splice(0).forEach((data) => this.postMessage(data));
      };
      inner.document.appendChild(inner.document.createElement("html")).appendChild(script);
      inner.document.close();
    }

    postMessage(data) {
      const inner = this.frame.contentWindow;
      if (this.ready) inner.dispatchEvent(new inner.MessageEvent("message", { data }));
      else this.unsent.push(data);
    }

    terminate() {
      this.frame.remove();
    }
  };
}

// A page that was opened from a file may start no worker: a hidden frame stands in for it, so that the search works.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      script.onload = () => {
        this.postMessage = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
        this.waiting.forEach(this.postMessage);
      };
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.waiting.push(data);
    }
  };
}

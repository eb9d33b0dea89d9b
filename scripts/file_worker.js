// Search on pages that were opened from disk: browsers start no Worker there, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.onmessage = this.onerror = this.onmessageerror = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resume) => addEventListener("load", resume, {once: true}));
      if (document.readyState === "complete") this.ready = Promise.resolve();
      this.ready = this.ready.then(() => this.start(new URL(address, document.baseURI).href));
    }

    start(address) {
      document.body.append(this.frame);
      const {contentWindow, contentDocument} = this.frame;
      contentWindow.postMessage = (data) => {
        const copy = structuredClone(data);  // as between a page and its worker: nothing is shared
        setTimeout(() => this.onmessage?.({data: copy}));
      };
      const script = contentDocument.createElement("script");
      script.src = address;
      return new Promise((resume, fail) => {
        script.onload = resume;
        script.onerror = () => fail(this.onerror?.(new ErrorEvent("error")));
        contentDocument.body.append(script);
      });
    }

    postMessage(data) {
      const copy = structuredClone(data);
      this.ready.then(() => setTimeout(() => this.frame.contentWindow?.onmessage?.({data: copy})));
    }

    terminate() {
      this.frame.remove();
    }
  };
}

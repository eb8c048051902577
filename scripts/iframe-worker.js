// A browser starts no worker from a file. This runs the worker of the search in a frame instead, so that the site of
// documentation needs no server and no network.
if (location.protocol === "file:") {
  const load = (frame, url) =>
    new Promise((done, failed) => {
      const script = frame.document.createElement("script")
      script.src = new URL(url, location)
      script.onload = done
      script.onerror = failed
      frame.document.head.append(script)
    })

  window.Worker = window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const element = document.createElement("iframe")
      element.hidden = true
      document.body.append(element)
      this.frame = element.contentWindow
      this.frame.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      this.frame.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => load(this.frame, each)), Promise.resolve())
      this.ready = load(this.frame, url)
    }

    postMessage(data) {
      this.ready = this.ready.then(() => this.frame.dispatchEvent(new MessageEvent("message", { data })))
    }

    terminate() {}
  }
}

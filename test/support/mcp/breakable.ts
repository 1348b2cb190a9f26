/** A client's connection that breaks when a test says so. */

/** A fetch whose streams of calls break on demand, as a connection does. */
export function breakable(): { fetch: typeof fetch; break: () => void; resumed: Promise<void> } {
  const cuts: (() => void)[] = [];
  const resumed = Promise.withResolvers<void>();
  return {
    resumed: resumed.promise,
    break: () => cuts.splice(0).forEach((cut) => cut()),
    fetch: async (input, init) => {
      const resumes = new Headers(init?.headers).has("Last-Event-ID");
      const response = await fetch(input, init);
      if (resumes) resumed.resolve();
      const isStream = response.headers.get("Content-Type")?.includes("event-stream");
      if (init?.method !== "POST" || !isStream || response.body === null) return response;
      const reader = response.body.getReader();
      const body = new ReadableStream({
        start: (controller) => {
          cuts.push(() => {
            void reader.cancel().catch(() => undefined);
            controller.error(new TypeError("terminated"));
          });
        },
        pull: async (controller) => {
          const { done, value } = await reader.read().catch(() => ({ done: true, value: null }));
          if (done) controller.close();
          else controller.enqueue(value);
        },
      });
      return new Response(body, { status: response.status, headers: response.headers });
    },
  };
}

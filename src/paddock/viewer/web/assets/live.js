// What is asked for again and again while the page is open.

import { useEffect, useRef, useState } from "./vendor/preact-htm-3.1.1.js";

// `ask`: gives the next value from the last; asked anew when `key` changes. A hidden page does not ask.
export function usePolled(ask, period, key) {
  const [answer, setAnswer] = useState({ value: undefined, error: null, key });
  const last = useRef(undefined);
  useEffect(() => {
    let ended = false;
    let timer;
    last.current = undefined;
    setAnswer({ value: undefined, error: null, key });
    const step = async () => {
      if (!document.hidden || last.current === undefined) {
        try {
          const value = await ask(last.current);
          if (ended) return;
          if (value !== last.current) setAnswer({ value, error: null, key });
          last.current = value;
        } catch (error) {
          if (ended) return;
          setAnswer((before) => ({ ...before, error: error.status === 401 ? "This page needs the address that `paddock view` printed: it has the token." : error.message }));
        }
      }
      timer = setTimeout(step, period);
    };
    step();
    return () => { ended = true; clearTimeout(timer); };
  }, [key]);
  return answer.key === key ? answer : { value: undefined, error: null };
}

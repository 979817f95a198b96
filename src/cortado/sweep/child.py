"""The process that runs the user's code for a sweep: requests arrive as lines of JSON, and answers are returned
likewise."""

import contextlib
import json
import math
import os
import signal
import sys
from typing import Any

GRACE = 60  # seconds beyond its limit, after which a process kills itself: nothing waits for it any more


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the user's own output must not mix with answers
    from cortado import quiet_libraries

    quiet_libraries()
    from cortado.base.errors import CortadoError
    from cortado.sweep import work
    from cortado.sweep.rows import ScoreTask, Task

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        if "names" in request:
            try:
                return {"names": work.names_of(request["names"], request["folder"])}
            except CortadoError as error:
                return {"error": str(error)}
        if "score" in request:
            return work.score_of(ScoreTask(**request)).to_json()
        return work.row_of(Task.from_json(request)).to_json()

    work.warm_up()
    print(json.dumps({"ready": True}), file=answers)
    for line in sys.stdin:
        request = json.loads(line)
        signal.alarm(math.ceil(request["seconds"]) + GRACE)
        result = answer(request)
        signal.alarm(0)
        print(json.dumps(result), file=answers)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        main()

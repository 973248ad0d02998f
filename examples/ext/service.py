"""A service for the filter `ext`, with Python's standard library: PORT=9100 python3 service.py"""

import base64
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def decide(request):
    """The answer to a request: see docs/guide/ext.md for what may stand in either."""
    fields = {name.lower(): value for name, value in request["fields"]}
    if fields.get("x-api-key") != "secret":
        return {"decision": "respond", "status": 401, "fields": {"X-Reason": "no key"}, "body": "a key is needed\n"}
    body = base64.b64decode(request.get("body_base64") or "")
    if b"attack" in body:
        return {"decision": "respond", "status": 403, "body": "not this\n", "reason": "the body has an attack"}
    answer = {"decision": "continue", "set_fields": {"X-User": "ada"}, "remove_fields": ["X-Api-Key"]}
    if request["path"].startswith("/old/"):
        answer["path"] = "/new/" + request["path"].removeprefix("/old/")
    return answer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps(decide(question)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9100"))), Handler)
print("port", server.server_port, flush=True)
server.serve_forever()

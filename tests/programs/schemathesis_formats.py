"""Values of the formats that the OpenAPI document describes in its own words, for `schemathesis`."""

import datetime

import schemathesis
from hypothesis import strategies as st

first, last = datetime.date(2100, 1, 1), datetime.date(2200, 1, 1)
times = st.datetimes(datetime.datetime(2100, 1, 1), datetime.datetime(2200, 1, 1))

FORMATS = {
    # Within the bounds of every operation.
    "thalweg-duration": st.builds("{}{}".format, st.integers(1, 30), st.sampled_from(["s", "m"])),
    "thalweg-network": st.one_of(st.ip_addresses().map(str), st.builds("198.51.{}.0/24".format, st.integers(0, 255))),
    # What the route of the tested configuration allows.
    "thalweg-destination": st.builds("127.0.0.1:{}".format, st.integers(1024, 65535)),
    "thalweg-expiry": st.one_of(st.dates(first, last).map(str), times.map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"))),
    "thalweg-cached-url": st.builds("{}://a.test/{}".format, st.sampled_from(["http", "https"]), st.integers(0, 9)),
    "thalweg-host": st.builds("{}.test{}".format, st.sampled_from("ab"), st.sampled_from(["", ":8080"])),
    # Of endpoints.
    "uri": st.one_of(st.builds("http://127.0.0.1:{}".format, st.integers(1, 65535)), st.just("unix:/run/service.sock")),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)

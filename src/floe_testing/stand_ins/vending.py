"""Vends storage credentials as Polaris does: short-lived, and good for one table's prefix only.

The reference server vends none, so a gateway before it adds what MinIO's STS gives.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from floe_testing.faults.gateway import Exchange, FaultGateway, Reply, Rule

if TYPE_CHECKING:
    from floe_testing.services import Server

_LEAST_SECONDS = 900
_ENDPOINT = "credentials-of"
_NAMESPACE = "{https://sts.amazonaws.com/doc/2011-06-15/}"


def assume_role(store: Server, *, policy: dict[str, Any], seconds: int = _LEAST_SECONDS) -> dict[str, str]:
    """Ask the store's STS for credentials that a policy limits; as PyIceberg properties."""
    form = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "DurationSeconds": str(max(seconds, _LEAST_SECONDS)),
        "Policy": json.dumps(policy),
    }
    body = urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(store.url, data=body, headers=_signed(store, body))  # noqa: S310 - our own server
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as reply:
        answer = ET.fromstring(reply.read())  # noqa: S314 - from our own server
    found = {item.tag.removeprefix(_NAMESPACE): item.text or "" for item in answer.iter()}
    return {
        "s3.access-key-id": found["AccessKeyId"],
        "s3.secret-access-key": found["SecretAccessKey"],
        "s3.session-token": found["SessionToken"],
    }


def _signed(store: Server, body: bytes) -> dict[str, str]:
    """Return the headers of AWS's signature version 4 for a POST to the root."""
    now = datetime.now(UTC)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    host = urllib.parse.urlsplit(store.url).netloc
    kind = "application/x-www-form-urlencoded"
    digest = hashlib.sha256(body).hexdigest()
    names = "content-type;host;x-amz-date"
    canonical = f"POST\n/\n\ncontent-type:{kind}\nhost:{host}\nx-amz-date:{stamp}\n\n{names}\n{digest}"
    scope = f"{day}/{store['region']}/sts/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{store['secret_access_key']}".encode()
    for part in (day, store["region"], "sts", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"{store['access_key_id']}/{scope}"
    return {
        "Content-Type": kind,
        "X-Amz-Date": stamp,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}",
    }


def prefix_policy(location: str) -> dict[str, Any]:
    """Return a policy that lets its holder work below one location and nowhere else."""
    bucket, _, prefix = location.removeprefix("s3://").rstrip("/").partition("/")
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
                "Resource": [f"arn:aws:s3:::{bucket}/{prefix}/*"],
            },
            {
                "Effect": "Allow",
                "Action": ["s3:ListBucket"],
                "Resource": [f"arn:aws:s3:::{bucket}"],
                "Condition": {"StringLike": {"s3:prefix": [f"{prefix}/*"]}},
            },
        ],
    }


class VendingDesk:
    """Adds vended credentials to a catalog's answers, and ends them at the store when their time is up.

    STS gives credentials for a quarter of an hour at least; the gateway before the store refuses them earlier.

    Attributes:
        seconds: How long credentials live that are handed out from now on.
        announce_expiry: Whether credentials come with the time they end.
        name_endpoint: Whether clients are told where to get new ones, as Polaris tells Iceberg's Java client.
        vended: How many credentials were handed out.
        renewed: How many of them were asked for at that endpoint.
        refused: How many requests came with credentials whose time was up.
    """

    def __init__(self, store: Server, *, catalog: FaultGateway, front: FaultGateway, seconds: float = 900.0) -> None:
        """Stand between clients, the catalog and the store.

        Args:
            store: MinIO.
            catalog: Gateway before the catalog.
            front: Gateway before the store, which clients are sent to.
            seconds: How long credentials live.
        """
        self.vended = 0
        self.refused = 0
        self.renewed = 0
        self.announce_expiry = True
        self.name_endpoint = False
        self.seconds = seconds
        self._store = store
        self._front = front
        self._ends: dict[str, float] = {}
        self._lock = threading.Lock()
        for method, path in (("GET", r"/tables/[^/]+$"), ("POST", r"/tables$")):
            catalog.rewrite(self._add, method=method, path=path)
        catalog.add(Rule("GET", f"/{_ENDPOINT}/", None, rewrite=self._renew))
        front.add(Rule(".*", "", None, rewrite=self._check))

    def _add(self, content: dict[str, Any]) -> None:
        content.setdefault("config", {}).update(self._vend(content["metadata"]["location"]))

    def _renew(self, exchange: Exchange, _: Reply) -> Reply:
        """Answer in place of the reference server, which has no such endpoint."""
        location = bytes.fromhex(exchange.path.rpartition("/")[2]).decode()
        with self._lock:
            self.renewed += 1
        return Reply.of(200, {"storage-credentials": [{"prefix": location, "config": self._vend(location)}]})

    def _vend(self, location: str) -> dict[str, str]:
        credentials = assume_role(self._store, policy=prefix_policy(location))
        ends = time.time() + self.seconds
        with self._lock:
            self.vended += 1
            self._ends[credentials["s3.session-token"]] = ends
        config = {
            **credentials,
            "s3.endpoint": self._front.url,
            "s3.region": self._store["region"],
            # The same for Iceberg's Java client.
            "client.region": self._store["region"],
            "s3.path-style-access": "true",
        }
        if self.announce_expiry:
            config["s3.session-token-expires-at-ms"] = str(int(ends * 1000))
        if self.name_endpoint:
            config["client.refresh-credentials-endpoint"] = f"{_ENDPOINT}/{location.encode().hex()}"
        return config

    def _check(self, exchange: Exchange, reply: Reply) -> Reply:
        headers = {name.lower(): value for name, value in exchange.headers.items()}
        with self._lock:
            ends = self._ends.get(headers.get("x-amz-security-token", ""), 0.0)
            if time.time() < ends:
                return reply
            self.refused += 1
        text = "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
        return Reply(400, {"Content-Type": "application/xml"}, text.encode())

"""Vends storage credentials like Polaris: short-lived, and limited to one table's prefix.

The reference server does not vend credentials, so a gateway in front of it adds credentials from MinIO's STS.
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

_MIN_SECONDS = 900
_ENDPOINT = "credentials-of"
_NAMESPACE = "{https://sts.amazonaws.com/doc/2011-06-15/}"


def assume_role(store: Server, *, policy: dict[str, Any], seconds: int = _MIN_SECONDS) -> dict[str, str]:
    """Request credentials limited by a policy from the store's STS; return them as PyIceberg properties."""
    form = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "DurationSeconds": str(max(seconds, _MIN_SECONDS)),
        "Policy": json.dumps(policy),
    }
    body = urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(store.url, data=body, headers=_signed(store, body))  # noqa: S310 - the local server
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as reply:
        answer = ET.fromstring(reply.read())  # noqa: S314 - from the local server
    found = {item.tag.removeprefix(_NAMESPACE): item.text or "" for item in answer.iter()}
    return {
        "s3.access-key-id": found["AccessKeyId"],
        "s3.secret-access-key": found["SecretAccessKey"],
        "s3.session-token": found["SessionToken"],
    }


def _signed(store: Server, body: bytes) -> dict[str, str]:
    """Return the headers of AWS Signature Version 4 for a POST to the root."""
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
    """Return a policy that grants access below one location only."""
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


class CredentialVendor:
    """Adds vended credentials to a catalog's responses, and refuses them at the store once they have expired.

    STS credentials are valid for at least 15 minutes; the gateway in front of the store refuses them earlier.

    Attributes:
        seconds: Lifetime of credentials issued from now on.
        announce_expiry: Whether credentials include their expiry time.
        name_endpoint: Whether clients receive a refresh endpoint, as Iceberg's Java client does from Polaris.
        vended: Number of credentials issued.
        renewed: Number of credentials issued by the refresh endpoint.
        refused: Number of requests with expired credentials.
    """

    def __init__(self, store: Server, *, catalog: FaultGateway, front: FaultGateway, seconds: float = 900.0) -> None:
        """Attach to the gateways of a catalog and a store.

        Args:
            store: The MinIO server.
            catalog: Gateway in front of the catalog.
            front: Gateway in front of the store, whose address clients receive.
            seconds: Lifetime of credentials.
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
        """Respond instead of the reference server, which has no such endpoint."""
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
            # Also for Iceberg's Java client.
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

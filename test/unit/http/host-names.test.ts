import { expect, test } from "vitest";
import { HostNames } from "../../../src/http/host-names.ts";

const names = new HostNames(["API.example.com", "gateway", "*.shops.example", "[2001:db8::1]"]);

test.each([
  "api.example.com",
  "API.EXAMPLE.COM",
  "api.example.com:8443",
  "api.example.com.",
  "api.example.com.:443",
  "gateway:8402",
  "a.shops.example",
  "a.b.SHOPS.example:1",
  "localhost",
  "localhost:8402",
  "app.localhost",
  "127.0.0.1",
  "203.0.113.9:80",
  "[::1]:8402",
  "[2001:db8::9]",
  "",
  undefined,
])("%s is ours", (authority) => {
  expect(names.has(authority)).toBe(true);
});

test.each([
  "example.com",
  "evil.api.example.com",
  "api.example.com.evil.example",
  "evilapi.example.com",
  "shops.example",
  ".shops.example",
  "evilshops.example",
  "a.shops.example.evil",
  "localhost.evil.example",
  "evil-localhost",
  "127.0.0.1.evil.example",
  "2130706433",
  "0x7f.1",
  "api.example.com..",
])("%s is somebody else's", (authority) => {
  expect(names.has(authority)).toBe(false);
});

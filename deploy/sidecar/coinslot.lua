-- Asks coinslot whether a request may pass. Whatever goes wrong here, nothing passes.

local CHECK = "http://127.0.0.1:8403/check"
-- Longer than limits.settlementWait: a settlement takes as long as a block. Milliseconds.
local TIMEOUT_MS = 60000

-- What of a pass is told to the backend and to the client: lines of coinslot's answer, and their variables.
local TOLD = {
  ["x-402-payer"] = "txn.coinslot_payer",
  ["x-402-transaction"] = "txn.coinslot_transaction",
  ["x-402-network"] = "txn.coinslot_network",
  ["idempotency-key"] = "txn.coinslot_key",
  ["x-payment-response"] = "txn.coinslot_receipt",
  ["payment-response"] = "txn.coinslot_receipt_v2",
  ["cache-control"] = "txn.coinslot_caching",
  ["vary"] = "txn.coinslot_vary",
  ["link"] = "txn.coinslot_link",
  ["access-control-allow-origin"] = "txn.coinslot_origin",
  ["access-control-expose-headers"] = "txn.coinslot_exposed",
}

-- What of the client's request is shown to coinslot, all lines of each name. No other line counts there.
local SHOWN = {
  "host",
  "x-payment",
  "payment-signature",
  "sign-in-with-x",
  "origin",
  "access-control-request-method",
  "access-control-request-headers",
  "idempotency-key",
  "traceparent",
  "tracestate",
}

-- Lines of coinslot's answer that belong to its connection with us.
local OURS = { ["connection"] = true, ["keep-alive"] = true, ["transfer-encoding"] = true, ["content-length"] = true }

local function refuse(txn, status, body)
  local reply = txn:reply({ status = status })
  reply:add_header("content-type", "application/json")
  reply:add_header("cache-control", "no-store")
  if txn.f:method() ~= "HEAD" then reply:set_body(body) end
  txn:done(reply)
end

local function ask(txn)
  local received = txn.http:req_get_headers()
  local headers = {
    ["x-original-method"] = { txn.f:method() },
    ["x-original-uri"] = { txn.f:pathq() == "" and "*" or txn.f:pathq() },
    ["x-forwarded-for"] = { txn.f:src() },
  }
  for _, name in ipairs(SHOWN) do
    local lines = received[name]
    if lines ~= nil then
      headers[name] = {}
      local index = 0
      while lines[index] ~= nil do
        table.insert(headers[name], lines[index])
        index = index + 1
      end
    end
  end
  return core.httpclient():get({ url = CHECK, headers = headers, timeout = TIMEOUT_MS })
end

local function answer(txn, response)
  local reply = txn:reply({ status = response.status, reason = response.reason })
  for name, lines in pairs(response.headers) do
    if not OURS[name] then
      for _, value in pairs(lines) do reply:add_header(name, value) end
    end
  end
  if response.body ~= nil and txn.f:method() ~= "HEAD" then reply:set_body(response.body) end
  txn:done(reply)
end

core.register_action("coinslot", { "http-req" }, function(txn)
  local isAsked, response = pcall(ask, txn)
  if not isAsked or response == nil or response.status == nil or response.status == 0 then
    refuse(txn, 503, '{"error":"it cannot be found out what this costs; try again later"}')
    return
  end
  if response.status ~= 200 or response.headers["x-402-pass"] == nil then
    answer(txn, response)
    return
  end
  for name, variable in pairs(TOLD) do
    local lines = response.headers[name]
    if lines ~= nil then txn:set_var(variable, lines[0]) end
  end
end, 0)

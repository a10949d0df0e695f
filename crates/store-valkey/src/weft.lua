#!lua name=weft2
-- Commits of Weft: decides about a batch, then applies it. No rule of the product is in here, and no clock. Records and
-- revisions are opaque bytes, numbers are decimal text. Every check comes before the first write: nothing is rolled back.
--
-- weft2_commit, and weft2_purge for a batch that only deletes
--   KEYS  head, feed, commits, Z sorted sets, then the keys of records in the groups S W T R X D:
--         S set   W set, and seen   T revision rewritten, and seen   R only seen   X deleted, and seen   D deleted
--   ARGV  1 commit id, the revision of all it writes    2 3 4 expected generation, seq and last commit, or ''
--         5 now   6 next seq   7 flags: f fast, s strict, w writes again what was applied before
--         8 9 generation and seq to raise to, or ''    10 why it is refused whatever is stored, or ''    11 events
--         12 what was seen of W T R X, 17 bytes each: `r` revision, `a` absent, `*` not looked at
--         13…19 how many: Z S W T R X D
--         per sorted set: how many removed, how many arguments added, the removed, then `0` and member by turns
--         the values of S W
--   reply 1, generation seq now it left   or 0, the head, the places in W T R X of records that differ
--         or 2, the head: the commit that was last is not in the history
-- weft2_resolve
--   KEYS  head, commits, barred    ARGV  commit id, now, bars from before this are forgotten, flag w
--   reply 1, generation seq now it left   or 0: it is barred
-- weft2_look, which only reads
--   KEYS  sorted set, strings      ARGV  members
--   reply the scores of the members in slices, then the strings in slices

-- Lua hands at most some thousand values to a command at once.
local function in_slices(first, last, call)
  for i = first, last, 1000 do
    call(i, math.min(i + 999, last))
  end
end

-- Whether one decimal number is below another. Doubles would not tell large ones apart.
local function less(a, b)
  return #a < #b or (#a == #b and a < b)
end

local function next_seq(seq) return string.format('%.0f', tonumber(seq) + 1) end

-- The head as text, its three numbers and the last commit.
local function read_head(key)
  local head = redis.call('GET', key) or '0 0 0'
  return head, string.match(head, '^(%d+) (%d+) (%d+) ?(.*)$')
end

-- Adds the places of the records in KEYS[first..last] that are not as they were seen.
local function add_differing(reply, KEYS, first, last, seen)
  in_slices(first, last, function(from, to)
    local values = redis.call('MGET', unpack(KEYS, from, to))
    for i = from, to do
      local at = (i - first) * 17 + 1
      local mark, value = string.sub(seen, at, at), values[i - from + 1]
      if (mark == 'a' and value)
        or (mark == 'r' and (not value or string.sub(value, 1, 16) ~= string.sub(seen, at + 1, at + 16))) then
        reply[#reply + 1] = i - first + 1
      end
    end
  end)
end

local function commit(KEYS, ARGV)
  local id, flags = ARGV[1], ARGV[7]
  local done = redis.call('HGET', KEYS[3], id)
  if done == 'x' then return redis.error_reply('WEFT barred: the commit was given up') end
  if done then
    if string.find(flags, 'w', 1, true) then redis.call('HSET', KEYS[3], id, done) end
    return {1, done}
  end

  local head, generation, seq, now, last = read_head(KEYS[1])
  local holds = generation == ARGV[2] and seq == ARGV[3] and last == ARGV[4]
  local base = holds or ARGV[4] == '' or redis.call('HGET', KEYS[3], ARGV[4])
  if not base or base == 'x' or less(generation, ARGV[2]) or (generation == ARGV[2] and less(seq, ARGV[3])) then
    return {2, head}
  end
  if generation ~= ARGV[2] or less(ARGV[5], now) or (not holds and string.find(flags, 's', 1, true)) then
    return {0, head}
  end
  local z, s, w, t, r, x, d = unpack(ARGV, 13, 19)
  local first = 4 + z
  local touched = first + s + w
  local deleted = touched + t + r
  if not (holds and string.find(flags, 'f', 1, true)) then
    local reply = {0, head}
    add_differing(reply, KEYS, first + s, deleted + x - 1, ARGV[12])
    if #reply > 2 then return reply end
  end
  if ARGV[10] ~= '' then return redis.error_reply('WEFT refused: ' .. ARGV[10]) end
  local at = holds and ARGV[6] or next_seq(seq)
  if ARGV[8] ~= '' then
    if less(ARGV[8], generation) or not less(seq, ARGV[9]) then
      return redis.error_reply('WEFT refused: the commit raises the partition to where it already is')
    end
    generation, at = ARGV[8], ARGV[9]
  end

  -- From here on only writes that cannot fail. The feed comes first: it alone would object to a position.
  head = generation .. ' ' .. at .. ' ' .. ARGV[5]
  redis.call('XADD', KEYS[2], at .. '-0', 'c', id, 'e', ARGV[11])
  redis.call('SET', KEYS[1], head .. ' ' .. id)
  redis.call('HSET', KEYS[3], id, head)
  local arg = 20
  for i = 4, first - 1 do
    local come = arg + 2 + ARGV[arg]
    local rest = come + ARGV[arg + 1]
    in_slices(arg + 2, come - 1, function(from, to) redis.call('ZREM', KEYS[i], unpack(ARGV, from, to)) end)
    in_slices(come, rest - 1, function(from, to) redis.call('ZADD', KEYS[i], unpack(ARGV, from, to)) end)
    arg = rest
  end
  local pairs = {}
  for i = 0, s + w - 1 do
    pairs[2 * i + 1], pairs[2 * i + 2] = KEYS[first + i], ARGV[arg + i]
  end
  in_slices(1, #pairs, function(from, to) redis.call('MSET', unpack(pairs, from, to)) end)
  for i = touched, touched + t - 1 do
    redis.call('SETRANGE', KEYS[i], 0, id)
  end
  in_slices(deleted, deleted + x + d - 1, function(from, to) redis.call('DEL', unpack(KEYS, from, to)) end)
  return {1, head}
end

local function resolve(KEYS, ARGV)
  local id = ARGV[1]
  local done = redis.call('HGET', KEYS[2], id)
  if not done then
    local _, generation, seq, now, last = read_head(KEYS[1])
    redis.call('SET', KEYS[1], generation .. ' ' .. next_seq(seq) .. ' ' .. now .. ' ' .. last)
    redis.call('ZADD', KEYS[3], ARGV[2], id)
    local old = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', '(' .. ARGV[3], 'LIMIT', 0, 100)
    if #old > 0 then
      redis.call('HDEL', KEYS[2], unpack(old))
      redis.call('ZREM', KEYS[3], unpack(old))
    end
  end
  if not done or ARGV[4] == 'w' then redis.call('HSET', KEYS[2], id, done or 'x') end
  if done and done ~= 'x' then return {1, done} end
  return {0}
end

local function look(KEYS, ARGV)
  local reply = {}
  in_slices(1, #ARGV, function(i, j) reply[#reply + 1] = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, i, j)) end)
  in_slices(2, #KEYS, function(i, j) reply[#reply + 1] = redis.call('MGET', unpack(KEYS, i, j)) end)
  return reply
end

redis.register_function('weft2_commit', commit)
-- Deletes free memory, so a full server still takes them.
redis.register_function{function_name = 'weft2_purge', callback = commit, flags = {'allow-oom'}}
redis.register_function('weft2_resolve', resolve)
redis.register_function{function_name = 'weft2_look', callback = look, flags = {'no-writes'}}

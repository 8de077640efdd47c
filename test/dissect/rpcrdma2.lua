-- Wireshark dissector for RPC-over-RDMA version 2 (draft-ietf-nfsv4-rpcrdma-version-two-07).
--
--   tshark -X lua_script:rpcrdma2.lua -r capture.pcap
--   wireshark -X lua_script:rpcrdma2.lua capture.pcap
--
-- It names the fields of messages of version 2 in Sends of iWARP and of InfiniBand or RoCE. Wireshark's own
-- dissector names those of version 1. The RPC message, or a part of it, that follows a header is the field
-- rpcordma2.payload; a whole one goes to the dissector of RPC if no item of it is in a chunk.

local rpcordma2 = Proto("rpcordma2", "RPC-over-RDMA version 2")

local types = {
	[4] = "RDMA2_ERROR", [5] = "RDMA2_GRANT", [6] = "RDMA2_CONNPROP_MIDDLE", [7] = "RDMA2_CONNPROP_FINAL",
	[8] = "RDMA2_CALL_EXTERNAL", [9] = "RDMA2_CALL_MIDDLE", [10] = "RDMA2_CALL_INLINE",
	[11] = "RDMA2_REPLY_EXTERNAL", [12] = "RDMA2_REPLY_MIDDLE", [13] = "RDMA2_REPLY_INLINE",
}
local errors = {
	[1] = "RDMA2_ERR_VERS", [2] = "RDMA2_ERR_BAD_XDR", [3] = "RDMA2_ERR_BAD_PROPVAL", [4] = "RDMA2_ERR_INVAL_HTYPE",
	[5] = "RDMA2_ERR_INVAL_CONT", [6] = "RDMA2_ERR_READ_CHUNKS", [7] = "RDMA2_ERR_WRITE_CHUNKS",
	[8] = "RDMA2_ERR_SEGMENTS", [9] = "RDMA2_ERR_WRITE_RESOURCE", [10] = "RDMA2_ERR_REPLY_RESOURCE",
	[11] = "RDMA2_ERR_VERS_MISMATCH", [100] = "RDMA2_ERR_SYSTEM",
}
local properties = {
	[1] = "Maximum Send Size", [2] = "Receive Buffer Size", [3] = "Maximum Segment Size", [4] = "Maximum Segment Count",
	[5] = "Reverse-Direction Support", [6] = "Host Authentication Message",
}

local f = {
	xid = ProtoField.uint32("rpcordma2.xid", "XID", base.HEX),
	version = ProtoField.uint32("rpcordma2.version", "Version"),
	credit = ProtoField.uint32("rpcordma2.credit", "Credit limit"),
	htype = ProtoField.uint32("rpcordma2.htype", "Header type", base.DEC, types),
	err = ProtoField.uint32("rpcordma2.err", "Error", base.DEC, errors),
	low = ProtoField.uint32("rpcordma2.vers_low", "Lowest version"),
	high = ProtoField.uint32("rpcordma2.vers_high", "Highest version"),
	max_chunks = ProtoField.uint32("rpcordma2.max_chunks", "Most chunks"),
	max_segments = ProtoField.uint32("rpcordma2.max_segments", "Most segments"),
	chunk_index = ProtoField.uint32("rpcordma2.chunk_index", "Number of the chunk"),
	length_needed = ProtoField.uint32("rpcordma2.length_needed", "Length needed"),
	inv_handle = ProtoField.uint32("rpcordma2.inv_handle", "Handle to invalidate", base.HEX),
	remaining = ProtoField.uint32("rpcordma2.remaining", "Remaining bytes"),
	call = ProtoField.none("rpcordma2.call", "Call chunk"),
	reads = ProtoField.none("rpcordma2.reads", "Read list"),
	writes = ProtoField.none("rpcordma2.writes", "Write list"),
	write = ProtoField.none("rpcordma2.write", "Write chunk"),
	reply = ProtoField.none("rpcordma2.reply", "Reply chunk"),
	segments = ProtoField.uint32("rpcordma2.segments", "Number of segments"),
	segment = ProtoField.none("rpcordma2.segment", "Segment"),
	position = ProtoField.uint32("rpcordma2.position", "Position"),
	handle = ProtoField.uint32("rpcordma2.handle", "Handle", base.HEX),
	length = ProtoField.uint32("rpcordma2.length", "Length"),
	offset = ProtoField.uint64("rpcordma2.offset", "Offset", base.HEX),
	properties = ProtoField.uint32("rpcordma2.properties", "Number of properties"),
	property = ProtoField.uint32("rpcordma2.property", "Property", base.DEC, properties),
	property_length = ProtoField.uint32("rpcordma2.property_length", "Length of the value"),
	property_value = ProtoField.uint32("rpcordma2.property_value", "Value"),
	token = ProtoField.bytes("rpcordma2.token", "Token"),
	property_data = ProtoField.bytes("rpcordma2.property_data", "Value"),
	payload = ProtoField.bytes("rpcordma2.payload", "RPC message"),
	part = ProtoField.bytes("rpcordma2.part", "Part of an RPC message"),
}
for _, field in pairs(f) do
	table.insert(rpcordma2.fields, field)
end

local malformed = ProtoExpert.new("rpcordma2.malformed", "The message cannot be parsed", expert.group.MALFORMED, expert.severity.ERROR)
rpcordma2.experts = { malformed }

-- A cursor reads a message from front to back. After a fault, bad is the reason, and the cursor reads nothing more.
local function cursor(tvb, tree)
	return { tvb = tvb, at = 0, tree = tree, bad = nil }
end

local function fail(c, why)
	if not c.bad then
		c.bad = why
		c.tree:add_proto_expert_info(malformed, why)
	end
	return 0
end

-- word reads a word, names it in the tree if field is given, and returns it.
local function word(c, tree, field)
	if c.bad or c.tvb:len() - c.at < 4 then
		return fail(c, "the header reaches beyond the message")
	end
	local range = c.tvb(c.at, 4)
	if field then
		tree:add(field, range)
	end
	c.at = c.at + 4
	return range:uint()
end

local function segment(c, tree, has_position)
	local size = has_position and 20 or 16
	if c.bad or c.tvb:len() - c.at < size then
		return fail(c, "the header reaches beyond the message")
	end
	local t = tree:add(f.segment, c.tvb(c.at, size))
	if has_position then
		word(c, t, f.position)
	end
	word(c, t, f.handle)
	word(c, t, f.length)
	t:add(f.offset, c.tvb(c.at, 8))
	c.at = c.at + 8
end

-- present reads the word before an entry of a list or before an optional chunk.
local function present(c)
	local w = word(c)
	if not c.bad and w > 1 then
		fail(c, "the word before an entry of a list is neither 0 nor 1")
	end
	return not c.bad and w == 1
end

local function read_list(c, tree, field)
	local t, from, n = tree:add(field, c.tvb(c.at, 0)), c.at, 0
	while present(c) do
		segment(c, t, true)
		n = n + 1
	end
	t:set_len(c.at - from)
	t:append_text(": " .. n .. " segments")
	return n
end

local function chunk(c, tree, field)
	local t, from = tree:add(field, c.tvb(c.at, 0)), c.at
	local n = word(c, t, f.segments)
	if not c.bad and n > (c.tvb:len() - c.at) / 16 then
		fail(c, "a chunk has more segments than the message")
	end
	for _ = 1, c.bad and 0 or n do
		segment(c, t, false)
	end
	t:set_len(c.at - from)
end

local function write_list(c, tree)
	local t, from, n = tree:add(f.writes, c.tvb(c.at, 0)), c.at, 0
	while present(c) do
		chunk(c, t, f.write)
		n = n + 1
	end
	t:set_len(c.at - from)
	t:append_text(": " .. n .. " chunks")
	return n
end

local arms = {
	[1] = { f.low, f.high }, [6] = { f.max_chunks }, [7] = { f.max_chunks }, [8] = { f.max_segments },
	[9] = { f.chunk_index, f.length_needed }, [10] = { f.length_needed },
}

local function property(c, tree)
	local id = word(c, tree, f.property)
	local n = word(c, tree, f.property_length)
	local padded = n + (4 - n % 4) % 4
	if c.bad or c.tvb:len() - c.at < padded then
		return fail(c, "the value of a property reaches beyond the message")
	end
	local data = c.tvb(c.at, n)
	if id >= 1 and id <= 5 and n == 4 then
		tree:add(f.property_value, data)
	elseif id == 6 and n >= 4 and c.tvb(c.at, 4):uint() <= n - 4 then
		tree:add(f.token, c.tvb(c.at + 4, c.tvb(c.at, 4):uint()))
	elseif n > 0 then
		tree:add(f.property_data, data)
	end
	c.at = c.at + padded
end

-- bodies read what follows the prefix. They return the name of what follows the header, or nil for nothing, and
-- whether an RPC message there is whole.
local bodies = {}
bodies[4] = function(c, tree)
	for _, field in ipairs(arms[word(c, tree, f.err)] or {}) do
		word(c, tree, field)
	end
end
bodies[5] = function() end
bodies[6] = function(c, tree)
	local n = word(c, tree, f.properties)
	while n > 0 and not c.bad do
		property(c, tree)
		n = n - 1
	end
end
bodies[7] = bodies[6]
bodies[8] = function(c, tree)
	word(c, tree, f.inv_handle)
	read_list(c, tree, f.call)
	read_list(c, tree, f.reads)
	write_list(c, tree)
	if present(c) then
		chunk(c, tree, f.reply)
	end
end
bodies[9] = function(c, tree)
	word(c, tree, f.remaining)
	return f.part
end
bodies[10] = function(c, tree)
	word(c, tree, f.inv_handle)
	local reduced = read_list(c, tree, f.reads) > 0
	write_list(c, tree)
	if present(c) then
		chunk(c, tree, f.reply)
	end
	return f.payload, not reduced
end
bodies[11] = function(c, tree)
	write_list(c, tree)
	if present(c) then
		chunk(c, tree, f.reply)
	else
		fail(c, "an RDMA2_REPLY_EXTERNAL has no Reply chunk")
	end
end
bodies[12] = bodies[9]
bodies[13] = function(c, tree)
	return f.payload, write_list(c, tree) == 0
end

-- payload names what follows the header. The last part of an RPC message has the same header type as a whole one; only a
-- whole one begins with its XID.
local function payload(c, pinfo, root, tree, field, whole)
	local rest = c.tvb(c.at)
	local is_whole = rest:len() >= 8 and rest(0, 4):uint() == c.tvb(0, 4):uint() and rest(4, 4):uint() <= 1
	if field == f.payload and not is_whole then
		field = f.part
	end
	tree:add(field, rest)
	if field == f.payload and whole then
		local rpc = Dissector.get("rpc")
		if rpc then
			rpc:call(rest:tvb(), pinfo, root)
		end
	end
end

function rpcordma2.dissector(tvb, pinfo, root)
	pinfo.cols.protocol = "RPCoRDMA2"
	local tree = root:add(rpcordma2, tvb())
	local c = cursor(tvb, tree)
	word(c, tree, f.xid)
	word(c, tree, f.version)
	word(c, tree, f.credit)
	local htype = word(c, tree, f.htype)
	if c.bad then
		return tvb:len()
	end
	local name = types[htype] or "unknown header type"
	tree:append_text(", " .. name)
	pinfo.cols.info = string.format("%s XID 0x%x", name, tvb(0, 4):uint())
	local field, whole
	if bodies[htype] then
		field, whole = bodies[htype](c, tree)
	end
	tree:set_len(c.at)
	if field and not c.bad and c.at < tvb:len() then
		payload(c, pinfo, root, tree, field, whole)
	end
	return tvb:len()
end

-- A Send is a message of version 2 if its words say so. A type that is not known is so small that it could be one of the
-- draft's extensions. An error may have the version of the message that it refuses; version 1 has the codes 1 and 2 itself.
local largest_type, version1_codes = 255, 2
local function is_version2(tvb)
	if tvb:len() < 16 then
		return false
	end
	local version, htype = tvb(4, 4):uint(), tvb(12, 4):uint()
	if version == 2 then
		return htype <= largest_type
	end
	if htype ~= 4 or tvb:len() < 20 then
		return false
	end
	local code = tvb(16, 4):uint()
	return errors[code] ~= nil and (version ~= 1 or code > version1_codes)
end

local function heuristic(tvb, pinfo, tree)
	if not is_version2(tvb) then
		return false
	end
	rpcordma2.dissector(tvb, pinfo, tree)
	return true
end

rpcordma2:register_heuristic("iwarp_ddp_rdmap", heuristic)
rpcordma2:register_heuristic("infiniband.payload", heuristic)

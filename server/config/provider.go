package config

// Auto is the value of RNIC.Provider for the software RNIC, together with RDMA devices if the
// machine has some.
const Auto = "auto"

// softwareSettings has the keys that only the software RNIC uses.
var softwareSettings = []setting{
	choice("rnic.crc", func(c *Config) *Choice { return &c.RNIC.CRC }, []string{"peer", "on", "off"}, "",
		"whether the software RNIC asks for a CRC32C on each frame (RFC 5044 §4.4): `on`, `off`, or `peer`, which leaves the decision to the peer. If either side asks, both sides use CRCs. Linux's siw does not ask"),
	{key: "rnic.fpdu", usual: quoted("auto"), check: checkFPDU,
		meaning: "the size of the frames that the software RNIC sends. With `auto` they are as large as the standard allows, which is cheapest for peers in software, or, with CRCs, as large as a TCP segment. With `mss` each frame fits into a TCP segment, which adapters in hardware may require. Otherwise, a number of bytes from 128 to 64768"},
}

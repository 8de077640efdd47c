package main

// nfs40Mutants are those of minor version 0 alone.
var nfs40Mutants = []mutant{
	{"RFC 7530 §16.28.4: RENEW by anybody", "ulb/nfs/nfs40/renew.go",
		`	if p := nfs4.PrincipalOf(&k.Call.Cred); p != c.Principal && !companion(c).opened(p) {
		return wire.NFS4ErrAccess
	}
`,
		`	_ = nfs4.PrincipalOf
`,
		"ulb/nfs/nfs40", "TestRenewOfSomebodyElse"},
	{"RENEW renews nothing", "ulb/nfs/nfs40/renew.go",
		`	m.state.Renew(c)
`,
		"",
		"ulb/nfs/nfs40", "TestLeaseIsRenewed"},
	{"RFC 7530 §9.1.1: a client ID that was not confirmed", "ulb/nfs/nfs40/client.go",
		", !m.state.Confirmed(c):",
		":",
		"ulb/nfs/nfs40", "TestRenewOfNobody TestOperationsOfUnknownClients"},
	{"RFC 7530 §9.1.1: a client ID of later minor versions", "ulb/nfs/nfs40/client.go",
		"case c == nil, c.Minor != 0,",
		"case c == nil,",
		"ulb/nfs/nfs40", "TestClientIDsOfLaterVersionsAreStale"},
	{"RFC 7530 §9.6.3: a client ID whose lease ran out is stale", "ulb/nfs/nfs40/client.go",
		`		return nil, wire.NFS4ErrExpired
`,
		`		return nil, wire.NFS4ErrStaleClientID
`,
		"ulb/nfs/nfs40", "TestExpiredClient"},
	{"operations do not renew the lease of their client ID", "ulb/nfs/nfs40/client.go",
		`	m.state.Renew(c)
`,
		"",
		"ulb/nfs/nfs40", "TestLeaseIsRenewed"},
}

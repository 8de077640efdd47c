package main

// gssMutants are those of RPCSEC_GSS.
var gssMutants = []mutant{
	{"RFC 2203 §5.3.3.1: a sequence number twice", "rpc/gss/window.go",
		`		return repeated
`,
		`		return fresh
`,
		"rpc/gss", "TestSequenceNumbers TestDestroy"},
	{"RFC 2203 §5.3.3.1: numbers below the window", "rpc/gss/window.go",
		`	} else if w.high-n >= windowSize {
		return below
`,
		`	} else if w.high-n >= 2*windowSize {
		return below
`,
		"rpc/gss", "TestSequenceNumbers"},
	{"RFC 2203 §5.3.3.1: the window moves on and forgets", "rpc/gss/window.go",
		`		for i := w.high + 1; i != n+1; i++ {
			w.seen[i%windowSize/64] &^= 1 << (i % 64)
		}
`,
		`		clear(w.seen[:])
`,
		"rpc/gss", "TestSequenceNumbers"},
	{"a header that was not verified moves the window", "rpc/gss/server.go",
		"a.Header.Verf.Flavor != rpc.AuthGSS || !g.verify(",
		"a.Header.Verf.Flavor != rpc.AuthGSS || x.window.see(c.seq) != fresh || !g.verify(",
		"rpc/gss", "TestForgedHeadersMoveNothing"},
	{"RFC 2203 §5.3.1: the header's checksum is not looked at", "rpc/gss/server.go",
		"a.Header.Verf.Flavor != rpc.AuthGSS || !g.verify(a.Header.Verf.Body, signedHeader(a))",
		"a.Header.Verf.Flavor != rpc.AuthGSS",
		"rpc/gss", "TestClientTriesAgainOnce TestHeadersThatAreRefused"},
	{"RFC 2203 §5.3.3.1: numbers beyond MAXSEQ", "rpc/gss/server.go",
		"case c.seq > maxSeq:",
		"case false:",
		"rpc/gss", "TestHeadersThatAreRefused"},
	{"a context outlives its ticket", "rpc/gss/server.go",
		`case !now.Before(x.expiry):
		if`,
		`case false:
		if`,
		"rpc/gss", "TestContextsEndWithTime"},
	{"a context is made of a ticket that has ended", "rpc/gss/make.go",
		"\tif !now.Before(x.expiry) {",
		"\tif false {",
		"rpc/gss", "TestContextsThatAreRefused"},
	{"RFC 2203 §5.3.2.2: the number in the body need not be the header's", "rpc/gss/body.go",
		"if to-from < 4 || binary.BigEndian.Uint32(body[from:]) != p.seq {",
		"if to-from < 4 {",
		"rpc/gss", "TestBodiesThatAreRefused"},
	{"RFC 2203 §5.3.2.2: the body's checksum is not looked at", "rpc/gss/body.go",
		"if d.Finish() != nil || !p.verify(token, inner) {",
		"if d.Finish() != nil || len(token) == 0 {",
		"rpc/gss", "TestRepliesThatAreRefused TestBodiesThatAreRefused"},
	{"RFC 2203 §5.3.3.2: the reply's verifier signs nothing of the call", "rpc/gss/guard.go",
		"g.putVerifier(w, g.number[:])",
		"g.putVerifier(w, zeros[:])",
		"rpc/gss", "TestReplayedReplyIsRefused"},
	{"RFC 2203 §5.2.3.1: the verifier of INIT signs another window", "rpc/gss/make.go",
		"binary.BigEndian.PutUint32(p.number[:], windowSize)",
		"binary.BigEndian.PutUint32(p.number[:], windowSize+1)",
		"rpc/gss", "TestServices TestClientRenewsInTime"},
	{"RFC 2203 §5.2.3.1: the client does not look at the signed window", "rpc/gss/initiate.go",
		"if err := c.VerifyMIC(i.verf, window[:]); err != nil {",
		"if err := c.VerifyMIC(i.verf, window[:]); err == nil && false {",
		"rpc/gss", "TestAnswersThatMakeNoContext"},
	{"RFC 2203 §5.3.3.2: the client does not look at the verifier of a reply", "rpc/gss/client_call.go",
		"if y.Verf.Flavor != rpc.AuthGSS || !e.verifyNumber(y.Verf.Body) {",
		"if y.Verf.Flavor != rpc.AuthGSS {",
		"rpc/gss", "TestRepliesThatAreRefused TestEveryBitOfAReplyIsProtected"},
	{"RFC 2203 §5.3.3.1: a call that is sent again keeps its number", "rpc/gss/client_call.go",
		"e.set(e.under.ctx, e.service, e.under.seq.Add(1))",
		`if e.seq == 0 {
		e.seq = e.under.seq.Add(1)
	}
	e.set(e.under.ctx, e.service, e.seq)`,
		"rpc/gss", "TestEachTransmissionHasItsOwnNumber"},
	{"the client makes more calls than the window holds", "rpc/gss/client.go",
		"c.renewing || c.underWay >= c.ctx.window {",
		"c.renewing {",
		"rpc/gss", "TestCallsWaitForTheWindow"},
	{"RFC 2203 §5.4: a context that was destroyed is known", "rpc/gss/destroy.go",
		"if d.server.contexts.remove(d.x) {",
		"if true {",
		"rpc/gss", "TestContextsComeAndGo TestClose"},
	{"a handle is found by its place alone", "rpc/gss/table.go",
		"x != nil && x.handle == handle(h)",
		"x != nil",
		"rpc/gss", "TestHeadersThatAreRefused"},
	{"one address may have all contexts", "rpc/gss/table.go",
		"if h != nil && h.count >= t.share {",
		"if h != nil && h.count >= t.max {",
		"rpc/gss", "TestTableUnderFlood TestFloodOfContextsFromOneAddress"},
	{"a principal without numbers is root", "rpc/gss/identity.go",
		"c.Anonymous, c.Unsure, c.UID, c.GID = true, id.unsure, rpc.NobodyID, rpc.NobodyID",
		"c.Anonymous = true",
		"rpc/gss", "TestIdentitiesAreRefreshedBehindCalls TestPrincipalWithoutNumbersIsNobody"},
	{"RFC 2203 §5.3.2.3: arguments that are only signed pass for sealed ones", "rpc/gss/body.go",
		"err != nil || !sealed ||",
		"err != nil || !sealed && sealed ||",
		"rpc/gss", "TestBodiesThatAreRefused"},
}

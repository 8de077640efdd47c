package krb5

import "testing"

func BenchmarkMIC200(b *testing.B) {
	for _, e := range allETypes {
		b.Run(e.String(), func(b *testing.B) {
			a, _ := pair(b, e, true)
			dst, pieces := make([]byte, 0, 64), [][]byte{text(200)}
			b.ReportAllocs()
			for b.Loop() {
				dst = a.MIC(dst[:0], pieces...)
			}
		})
	}
}

func BenchmarkVerifyMIC200(b *testing.B) {
	for _, e := range allETypes {
		b.Run(e.String(), func(b *testing.B) {
			a, c := pair(b, e, true)
			pieces := [][]byte{text(200)}
			token := a.MIC(nil, pieces...)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.VerifyMIC(token, pieces...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkWrap64K(b *testing.B) {
	for _, e := range allETypes {
		b.Run(e.String(), func(b *testing.B) {
			a, _ := pair(b, e, true)
			before, behind := a.WrapSize()
			pieces := [][]byte{make([]byte, before), text(64 << 10), make([]byte, behind)}
			b.SetBytes(64 << 10)
			b.ReportAllocs()
			for b.Loop() {
				a.Wrap(pieces...)
			}
		})
	}
}

func BenchmarkUnwrap64K(b *testing.B) {
	for _, e := range allETypes {
		b.Run(e.String(), func(b *testing.B) {
			a, c := pair(b, e, true)
			good := wrap(a, text(64<<10), 0)
			token := make([]byte, len(good))
			b.SetBytes(64 << 10)
			b.ReportAllocs()
			for b.Loop() {
				copy(token, good)
				if _, _, err := c.Unwrap(token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAccept(b *testing.B) {
	kdc, k := freshTicket(b, nil)
	m := kdc.acceptor()
	for b.Loop() {
		b.StopTimer()
		_, token := start(b, k, Config{})
		b.StartTimer()
		if _, _, err := m.Accept(token, noon); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHeader verifies the MIC of a call's header, which has 68 bytes if the credential has a
// 16-byte handle.
func BenchmarkHeader(b *testing.B) {
	for _, e := range allETypes {
		b.Run(e.String(), func(b *testing.B) {
			a, c := pair(b, e, true)
			pieces := [][]byte{text(68)}
			token := a.MIC(nil, pieces...)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.VerifyMIC(token, pieces...); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRefuse refuses a token whose ticket no key decrypts. A client without a ticket can send
// such tokens.
func BenchmarkRefuse(b *testing.B) {
	kdc, k := freshTicket(b, nil)
	m := kdc.acceptor()
	_, token := start(b, k, Config{})
	token[len(token)/2] ^= 1
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := m.Accept(token, noon); err == nil {
			b.Fatal("it is taken")
		}
	}
}

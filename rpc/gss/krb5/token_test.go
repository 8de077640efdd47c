package krb5

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdmad/nfsrdmad/rpc/gss"
)

var allETypes = []EType{AES128SHA1, AES256SHA1, AES128SHA2, AES256SHA2}

// pair returns both ends of a context with a random key.
func pair(t testing.TB, e EType, subkey bool) (initiator, acceptor *context) {
	t.Helper()
	k := key{profile: e.profile()}.freshKey()
	expiry := time.Unix(2_000_000_000, 0)
	flags := byte(0)
	if subkey {
		flags = acceptorSubkey
	}
	initiator, acceptor = newContext(k, flags, 7), newContext(k, flags|sentByAcceptor, 1<<40)
	initiator.principal, acceptor.principal = "nfs/server@R", "user@R"
	initiator.expiry, acceptor.expiry = expiry, expiry
	return initiator, acceptor
}

func forEach(t *testing.T, f func(t *testing.T, from, to *context)) {
	for _, e := range allETypes {
		for _, subkey := range []bool{false, true} {
			a, b := pair(t, e, subkey)
			t.Run(fmt.Sprintf("%v/subkey=%v/initiator", e, subkey), func(t *testing.T) { f(t, a, b) })
			t.Run(fmt.Sprintf("%v/subkey=%v/acceptor", e, subkey), func(t *testing.T) { f(t, b, a) })
		}
	}
}

// cut divides b into pieces of various lengths. They alias b.
func cut(b []byte, seed int) (pieces [][]byte) {
	for step := seed; len(b) > 0; step = (step*5 + 1) % 37 {
		n := min(step, len(b))
		pieces, b = append(pieces, b[:n:n]), b[n:]
	}
	return pieces
}

func text(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

func TestMICIsVerifiedByThePeerOnly(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		for _, n := range []int{0, 1, 63, 200, 4096} {
			message := text(n)
			token := from.MIC([]byte("before"), cut(message, n)...)[len("before"):]
			if len(token) != from.MICSize() {
				t.Fatalf("%d bytes, MICSize is %d", len(token), from.MICSize())
			}
			if err := to.VerifyMIC(token, message); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if from.VerifyMIC(token, message) == nil {
				t.Fatal("a token that comes back to its sender is taken")
			}
		}
	})
}

func TestMICWithAnyBitFlippedIsRefused(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		message := text(40)
		token := from.MIC(nil, message)
		eachBitFlipped(token, func(bit int) {
			if to.VerifyMIC(token, message) == nil {
				t.Errorf("bit %d of the token", bit)
			}
		})
		eachBitFlipped(message, func(bit int) {
			if to.VerifyMIC(token, message) == nil {
				t.Errorf("bit %d of the message", bit)
			}
		})
		for n := range len(token) {
			if to.VerifyMIC(token[:n], message) == nil {
				t.Errorf("a token of %d bytes", n)
			}
		}
	})
}

func eachBitFlipped(b []byte, f func(bit int)) {
	for bit := range 8 * len(b) {
		b[bit/8] ^= 1 << (bit % 8)
		f(bit)
		b[bit/8] ^= 1 << (bit % 8)
	}
}

// wrap returns a Wrap token of message, which it passes to Wrap in several pieces.
func wrap(c *context, message []byte, seed int) []byte {
	before, behind := c.WrapSize()
	token := make([]byte, before+len(message)+behind)
	body := token[before : before+len(message)]
	copy(body, message)
	c.Wrap(slices.Concat([][]byte{token[:before]}, cut(body, seed), [][]byte{token[before+len(message):]})...)
	return token
}

// rotated returns a Wrap token rotated right by n bytes. Its RRC is n.
func rotated(token []byte, n int) []byte {
	out := append([]byte(nil), token...)
	body := out[headerSize:]
	for i, b := range token[headerSize:] {
		body[(i+n)%len(body)] = b
	}
	binary.BigEndian.PutUint16(out[6:], uint16(n))
	return out
}

func checkUnwrap(t *testing.T, c *context, token, want []byte) {
	t.Helper()
	from, to, err := c.Unwrap(token)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(token[from:to], want) {
		t.Fatalf("%x; want %x", token[from:to], want)
	}
}

func TestWrapIsUnwrappedByThePeerOnly(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		for n := range 100 {
			token := wrap(from, text(n), n)
			if _, _, err := from.Unwrap(append([]byte(nil), token...)); err == nil {
				t.Fatal("a token that comes back to its sender is taken")
			}
			if n > 8 && bytes.Contains(token, text(n)) {
				t.Fatal("the message is in the token")
			}
			checkUnwrap(t, to, token, text(n))
		}
	})
}

func TestWrapRotatedByAnyAmountIsUnwrapped(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		for _, n := range []int{0, 1, 5, 16, 100} {
			token := wrap(from, text(n), n)
			for rrc := range 300 {
				checkUnwrap(t, to, rotated(token, rrc), text(n))
			}
			checkUnwrap(t, to, rotated(token, 0xFFFF), text(n))
		}
	})
}

// Unwrap removes filler bytes after the message of an encrypted token, whose number is in EC (RFC
// 4121 §4.2.3).
func TestFillerOfASealedMessageIsTakenOff(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		for ec := range 20 {
			before, _ := from.WrapSize()
			body := append(make([]byte, before, 200), text(30)...)
			putHeader(body, idWrap, from.flags|sealedFlag, from.number())
			binary.BigEndian.PutUint16(body[4:], uint16(ec))
			body = append(body, make([]byte, ec)...)
			body = append(body, body[:headerSize]...)
			seal, _ := from.wrapKeys()
			token := seal.seal(body, [][]byte{body[headerSize:]})
			checkUnwrap(t, to, token, text(30))
		}
	})
}

func TestWrapWithAnyBitFlippedIsRefused(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		good := wrap(from, text(37), 3)
		eachBitFlipped(good, func(bit int) {
			token := append([]byte(nil), good...)
			at, end, err := to.Unwrap(token)
			// A changed RRC is harmless if the rotation is the same: it differs by a multiple of the
			// length.
			if harmless := bit/8 == 6 || bit/8 == 7; err == nil && !(harmless && bytes.Equal(token[at:end], text(37))) {
				t.Errorf("bit %d", bit)
			}
		})
		for n := range len(good) {
			if _, _, err := to.Unwrap(append([]byte(nil), good[:n]...)); err == nil {
				t.Errorf("a token of %d bytes", n)
			}
		}
	})
}

func TestManyUseAContextAtOnce(t *testing.T) {
	for _, e := range allETypes {
		from, to := pair(t, e, true)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for n := range 50 {
					message := text(100*i + n)
					if err := to.VerifyMIC(from.MIC(nil, message), message); err != nil {
						t.Error(err)
					}
					token := wrap(from, message, n)
					at, end, err := to.Unwrap(token)
					if err != nil || !bytes.Equal(token[at:end], message) {
						t.Errorf("%d bytes: %v", len(message), err)
					}
				}
			})
		}
		wg.Wait()
		if got := from.next.Load(); got != 7+8*50*2 {
			t.Errorf("%v: the next number is %d", e, got)
		}
	}
}

func TestTokensOfTheOtherKeyAreRefused(t *testing.T) {
	for _, e := range allETypes {
		a, _ := pair(t, e, true)
		_, b := pair(t, e, true)
		if b.VerifyMIC(a.MIC(nil, text(9)), text(9)) == nil {
			t.Errorf("%v: MIC", e)
		}
		if _, _, err := b.Unwrap(wrap(a, text(9), 1)); err == nil {
			t.Errorf("%v: Wrap", e)
		}
	}
}

// A token with a wrong header is refused even if its checksum is correct, because a peer with the
// key can write any header (RFC 4121 §4.2.2, §4.2.6).
func TestHeadersAreJudgedThoughTheirChecksumIsRight(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		for _, flag := range []byte{sentByAcceptor, acceptorSubkey} {
			from.flags ^= flag
			if to.VerifyMIC(from.MIC(nil, text(5)), text(5)) == nil {
				t.Errorf("MIC with flag %#x wrong", flag)
			}
			if _, _, err := to.Unwrap(wrap(from, text(5), 1)); err == nil {
				t.Errorf("Wrap with flag %#x wrong", flag)
			}
			from.flags ^= flag
		}
		from.flags ^= sealedFlag
		if to.VerifyMIC(from.MIC(nil, text(5)), text(5)) == nil {
			t.Error("a MIC that says that it is sealed")
		}
		from.flags ^= sealedFlag
		for at := 3; at < 8; at++ {
			token := from.MIC(nil)
			token[at] = 0
			if to.VerifyMIC(from.sign.appendMAC(token[:headerSize], token[:headerSize], nil, nil)) == nil {
				t.Errorf("MIC with filler %d wrong", at)
			}
		}
	})
}

// Unknown flags in a header are ignored (RFC 4121 §4.2.2), but the checksum covers them.
func TestUnknownFlagsArePassedOver(t *testing.T) {
	forEach(t, func(t *testing.T, from, to *context) {
		for flag := byte(8); flag != 0; flag <<= 1 {
			from.flags |= flag
			token := from.MIC(nil, text(5))
			if err := to.VerifyMIC(token, text(5)); err != nil {
				t.Errorf("MIC with flag %#x: %v", flag, err)
			}
			token[2] &^= flag
			if to.VerifyMIC(token, text(5)) == nil {
				t.Errorf("MIC with flag %#x taken away", flag)
			}
			checkUnwrap(t, to, wrap(from, text(5), 1), text(5))
			token = wrap(from, text(5), 1)
			token[2] &^= flag
			if _, _, err := to.Unwrap(token); err == nil {
				t.Errorf("Wrap with flag %#x taken away", flag)
			}
			from.flags &^= flag
		}
	})
}

func TestTokensAreNumbered(t *testing.T) {
	a, _ := pair(t, AES256SHA1, true)
	for want := uint64(7); want < 12; want++ {
		token := a.MIC(nil)
		if got := token[15]; uint64(got) != want {
			t.Errorf("number %d, want %d", got, want)
		}
	}
}

func TestFailuresAreOfTheSeamsType(t *testing.T) {
	a, b := pair(t, AES128SHA2, true)
	token := a.MIC(nil, text(4))
	token[20] ^= 1
	_, _, unwrapErr := b.Unwrap(nil)
	for _, c := range []struct {
		err  error
		want gss.Major
	}{
		{b.VerifyMIC(token, text(4)), gss.BadMIC},
		{b.VerifyMIC(nil), gss.DefectiveToken},
		{unwrapErr, gss.DefectiveToken},
	} {
		var e *gss.Error
		if !errors.As(c.err, &e) || e.Major != c.want {
			t.Errorf("%v, want %v", c.err, c.want)
		}
	}
}

func TestProtectionAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("pools lose things under the race detector")
	}
	for _, e := range allETypes {
		a, b := pair(t, e, true)
		message, dst := text(200), make([]byte, 0, 64)
		pieces := cut(message, 5)
		before, behind := a.WrapSize()
		room := slices.Concat([][]byte{make([]byte, before)}, pieces, [][]byte{make([]byte, behind)})
		token, spare := wrap(a, text(200), 1), make([]byte, 400)
		for name, f := range map[string]func(){
			"MIC":       func() { dst = a.MIC(dst[:0], pieces...) },
			"VerifyMIC": func() { _ = b.VerifyMIC(dst, pieces...) },
			"Wrap":      func() { a.Wrap(room...) },
			"Unwrap":    func() { b.Unwrap(spare[:copy(spare, token)]) },
		} {
			if n := testing.AllocsPerRun(200, f); n > 0 {
				t.Errorf("%v: %s allocates %v times", e, name, n)
			}
		}
	}
}

func TestCiphertextStealingDoesNotDependOnPieces(t *testing.T) {
	k := newCTSKey(text(32))
	for n := blockSize; n < 200; n++ {
		plain := make([]byte, n)
		rand.Read(plain)
		whole := append([]byte(nil), plain...)
		k.encrypt([][]byte{whole})
		for seed := range 20 {
			b := append([]byte(nil), plain...)
			k.encrypt(cut(b, seed))
			if !bytes.Equal(b, whole) {
				t.Fatalf("%d bytes, seed %d: encryption", n, seed)
			}
			k.decrypt(b)
			if !bytes.Equal(b, plain) {
				t.Fatalf("%d bytes, seed %d: decryption", n, seed)
			}
		}
	}
}

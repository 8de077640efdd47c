package krb5

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ctsKey gives the ciphertexts of RFC 3962 appendix B.
func TestCiphertextStealingMatchesTheVectors(t *testing.T) {
	k := newCTSKey([]byte("chicken teriyaki"))
	const text = "I would like the General Gau's Chicken, please, and wonton soup."
	for n, want := range map[int]string{
		17: "c6353568f2bf8cb4d8a580362da7ff7f97",
		31: "fc00783e0efdb2c1d445d4c8eff7ed2297687268d6ecccc0c07b25e25ecfe5",
		32: "39312523a78662d5be7fcbcc98ebf5a897687268d6ecccc0c07b25e25ecfe584",
		47: "97687268d6ecccc0c07b25e25ecfe584b3fffd940c16a18c1b5549d2f838029e39312523a78662d5be7fcbcc98ebf5",
		48: "97687268d6ecccc0c07b25e25ecfe5849dad8bbb96c4cdc03bc103e1a194bbd839312523a78662d5be7fcbcc98ebf5a8",
		64: "97687268d6ecccc0c07b25e25ecfe58439312523a78662d5be7fcbcc98ebf5a84807efe836ee89a526730dbc2f7bc8409dad8bbb96c4cdc03bc103e1a194bbd8",
	} {
		b := []byte(text[:n])
		k.encrypt([][]byte{b})
		if got := hex.EncodeToString(b); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
		k.decrypt(b)
		if string(b) != text[:n] {
			t.Errorf("%d bytes decrypt to %q", n, b)
		}
	}
}

// A text of any length, divided into pieces in any way, also empty ones at both ends, gives the same
// ciphertext as in one piece.
func TestPiecesAreEncryptedAsOneText(t *testing.T) {
	k := newCTSKey([]byte("chicken teriyaki"))
	for n := blockSize; n <= 5*blockSize+1; n++ {
		whole := text(n)
		k.encrypt([][]byte{whole})
		for a := range n + 1 {
			for _, b := range []int{a, min(a+1, n), min(a+blockSize-1, n), min(a+blockSize, n), n} {
				parts := text(n)
				k.encrypt([][]byte{nil, parts[:a], {}, parts[a:b], parts[b:], nil})
				if !bytes.Equal(parts, whole) {
					t.Fatalf("%d bytes, divided at %d and %d: %x, want %x", n, a, b, parts, whole)
				}
			}
		}
	}
}

// The base keys and the usage of the vectors in RFC 8009 appendix A.
var (
	base128 = "3705D96080C17728A0E800EAB6E0D23C"
	base256 = "6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52"
)

const vectorUsage = 2

// cipherKeys gives the ciphertexts of RFC 8009 appendix A.
func TestEncryptionBySHA2MatchesTheVectors(t *testing.T) {
	for _, v := range []struct {
		etype                  EType
		base, confounder, data string
		ciphertext             string
	}{
		{AES128SHA2, base128, "7E5895EAF2672435BAD817F545A37148", "", "EF85FB890BB8472F4DAB20394DCA781DAD877EDA39D50C870C0D5A0A8E48C718"},
		{AES128SHA2, base128, "7BCA285E2FD4130FB55B1A5C83BC5B24", "000102030405", "84D7F30754ED987BAB0BF3506BEB09CFB55402CEF7E6877CE99E247E52D16ED4421DFDF8976C"},
		{AES128SHA2, base128, "56AB21713FF62C0A1457200F6FA9948F", "000102030405060708090A0B0C0D0E0F", "3517D640F50DDC8AD3628722B3569D2AE07493FA8263254080EA65C1008E8FC295FB4852E7D83E1E7C48C37EEBE6B0D3"},
		{AES128SHA2, base128, "A7A4E29A4728CE10664FB64E49AD3FAC", "000102030405060708090A0B0C0D0E0F1011121314", "720F73B18D9859CD6CCB4346115CD336C70F58EDC0C4437C5573544C31C813BCE1E6D072C186B39A413C2F92CA9B8334A287FFCBFC"},
		{AES256SHA2, base256, "F764E9FA15C276478B2C7D0C4E5F58E4", "", "41F53FA5BFE7026D91FAF9BE959195A058707273A96A40F0A01960621AC612748B9BBFBE7EB4CE3C"},
		{AES256SHA2, base256, "B80D3251C1F6471494256FFE712D0B9A", "000102030405", "4ED7B37C2BCAC8F74F23C1CF07E62BC7B75FB3F637B9F559C7F664F69EAB7B6092237526EA0D1F61CB20D69D10F2"},
		{AES256SHA2, base256, "53BF8A0D105265D4E276428624CE5E63", "000102030405060708090A0B0C0D0E0F", "BC47FFEC7998EB91E8115CF8D19DAC4BBBE2E163E87DD37F49BECA92027764F68CF51F14D798C2273F35DF574D1F932E40C4FF255B36A266"},
		{AES256SHA2, base256, "763E65367E864F02F55153C7E3B58AF1", "000102030405060708090A0B0C0D0E0F1011121314", "40013E2DF58E8751957D2878BCD2D6FE101CCFD556CB1EAE79DB3C3EE86429F2B2A602AC86FEF6ECB647D6295FAE077A1FEB517508D2C16B4192E01F62"},
	} {
		k, err := newKey(v.etype, unhex(t, v.base))
		if err != nil {
			t.Fatal(err)
		}
		b := unhex(t, v.confounder+v.data)
		if got := fmt.Sprintf("%X", k.cipherKeys(vectorUsage).seal(b, [][]byte{b})); got != v.ciphertext {
			t.Errorf("%v of %q: %s, want %s", v.etype, v.data, got, v.ciphertext)
		}
		if got, ok := k.decrypt(vectorUsage, unhex(t, v.ciphertext)); !ok || !bytes.Equal(got, unhex(t, v.data)) {
			t.Errorf("%v: %s decrypts to %x, %v", v.etype, v.ciphertext, got, ok)
		}
	}
}

// checksumKey gives the checksums of RFC 8009 appendix A.
func TestChecksumsBySHA2MatchTheVectors(t *testing.T) {
	for _, v := range []struct {
		etype     EType
		base, mac string
	}{
		{AES128SHA2, base128, "D78367186643D67B411CBA9139FC1DEE"},
		{AES256SHA2, base256, "45EE791567EEFCA37F4AC1E0222DE80D43C3BFA06699672A"},
	} {
		k, err := newKey(v.etype, unhex(t, v.base))
		if err != nil {
			t.Fatal(err)
		}
		message := unhex(t, "000102030405060708090A0B0C0D0E0F1011121314")
		if got := fmt.Sprintf("%X", k.checksumKey(vectorUsage).appendMAC(nil, message, nil, nil)); got != v.mac {
			t.Errorf("%v: %s, want %s", v.etype, got, v.mac)
		}
	}
}

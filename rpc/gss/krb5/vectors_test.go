package krb5

import (
	"bytes"
	"crypto/pbkdf2"
	"crypto/sha1"
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

// nfold gives the results of RFC 3961 appendix A.1.
func TestFoldingMatchesTheVectors(t *testing.T) {
	for _, v := range []struct{ in, out string }{
		{"012345", "be072631276b1955"},
		{"password", "78a07b6caf85fa"},
		{"Rough Consensus, and Running Code", "bb6ed30870b7f0e0"},
		{"password", "59e4a8ca7c0385c3c37b3f6d2000247cb6e6bd5b3e"},
		{"MASSACHVSETTS INSTITVTE OF TECHNOLOGY", "db3b0d8f0b061e603282b308a50841229ad798fab9540c1b"},
		{"Q", "518a54a215a8452a518a54a215a8452a518a54a215"},
		{"ba", "fb25d531ae8974499f52fd92ea9857c4ba24cf297e"},
		{"kerberos", "6b65726265726f73"},
		{"kerberos", "6b65726265726f737b9b5b2b93132b93"},
		{"kerberos", "8372c236344e5f1550cd0747e15d62ca7a5a3bcea4"},
		{"kerberos", "6b65726265726f737b9b5b2b93132b935c9bdcdad95c9899c4cae4dee6d6cae4"},
	} {
		if got := hex.EncodeToString(nfold([]byte(v.in), len(v.out)/2)); got != v.out {
			t.Errorf("%d-fold(%q) = %s, want %s", 4*len(v.out), v.in, got, v.out)
		}
	}
}

// deriveByCipher gives the keys of RFC 3962 appendix B, where the string-to-key function uses it
// (as DK).
func TestDerivationByCipherMatchesTheVectors(t *testing.T) {
	for _, v := range []struct {
		passphrase, salt string
		iterations       int
		aes128, aes256   string
	}{
		{"password", "ATHENA.MIT.EDUraeburn", 1, "42263c6e89f4fc28b8df68ee09799f15", "fe697b52bc0d3ce14432ba036a92e65bbb52280990a2fa27883998d72af30161"},
		{"password", "ATHENA.MIT.EDUraeburn", 2, "c651bf29e2300ac27fa469d693bdda13", "a2e16d16b36069c135d5e9d2e25f896102685618b95914b467c67622225824ff"},
		{"password", "ATHENA.MIT.EDUraeburn", 1200, "4c01cd46d632d01e6dbe230a01ed642a", "55a6ac740ad17b4846941051e1e8b0a7548d93b0ab30a8bc3ff16280382b8c2a"},
		{"password", "\x12\x34\x56\x78\x78\x56\x34\x12", 5, "e9b23d52273747dd5c35cb55be619d8e", "97a4e786be20d81a382d5ebc96d5909cabcdadc87ca48f574504159f16c36e31"},
		{strings.Repeat("X", 64), "pass phrase equals block size", 1200, "59d1bb789a828b1aa54ef9c2883f69ed", "89adee3608db8bc71f1bfbfe459486b05618b70cbae22092534e56c553ba4b34"},
		{strings.Repeat("X", 65), "pass phrase exceeds block size", 1200, "cb8005dc5f90179a7f02104c0018751d", "d78c5c9cb872a8c9dad4697f0bb5b2d21496c82beb2caeda2112fceea057401b"},
		{"\xf0\x9d\x84\x9e", "EXAMPLE.COMpianist", 50, "f149c1f2e154a73452d43e7fe62a56e5", "4b6d9839f84406df1f09cc166db4b83c571848b784a3d6bdc346589a3e393f9e"},
	} {
		for n, want := range map[int]string{16: v.aes128, 32: v.aes256} {
			seed, err := pbkdf2.Key(sha1.New, v.passphrase, []byte(v.salt), v.iterations, n)
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(deriveByCipher(seed, []byte("kerberos"), n)); got != want {
				t.Errorf("%q, %d iterations, %d bytes: %s, want %s", v.passphrase, v.iterations, n, got, want)
			}
		}
	}
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
		k.decrypt([][]byte{b})
		if string(b) != text[:n] {
			t.Errorf("%d bytes decrypt to %q", n, b)
		}
	}
}

// The base keys and the usage of the vectors in RFC 8009 appendix A.
var (
	base128 = "3705D96080C17728A0E800EAB6E0D23C"
	base256 = "6D404D37FAF79F9DF0D33568D320669800EB4836472EA8A026D16B7182460C52"
)

const vectorUsage = 2

// deriveByHash gives the keys of RFC 8009 appendix A.
func TestDerivationByHashMatchesTheVectors(t *testing.T) {
	for _, v := range []struct {
		etype      EType
		base       string
		kc, ke, ki string
	}{
		{AES128SHA2, base128, "B31A018A48F54776F403E9A396325DC3", "9B197DD1E8C5609D6E67C3E37C62C72E", "9FDA0E56AB2D85E1569A688696C26A6C"},
		{AES256SHA2, base256, "EF5718BE86CC84963D8BBB5031E9F5C4BA41F28FAF69E73D", "56AB22BEE63D82D7BC5227F6773F8EA7A5EB1C825160C38312980C442E5C7E49", "69B16514E3CD8E56B82010D5C73012B622C4D00FFC23ED1F"},
	} {
		p := v.etype.profile()
		for purpose, want := range map[byte]string{forChecksum: v.kc, forEncryption: v.ke, forIntegrity: v.ki} {
			got := fmt.Sprintf("%X", p.derive(unhex(t, v.base), vectorUsage, purpose, len(want)/2))
			if got != want {
				t.Errorf("%v, purpose %#x: %s, want %s", v.etype, purpose, got, want)
			}
		}
	}
}

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
		kc := k.checksumKey(vectorUsage)
		h := kc.start()
		h.Write(unhex(t, "000102030405060708090A0B0C0D0E0F1011121314"))
		if got := fmt.Sprintf("%X", kc.appendMAC(nil, h)); got != v.mac {
			t.Errorf("%v: %s, want %s", v.etype, got, v.mac)
		}
	}
}

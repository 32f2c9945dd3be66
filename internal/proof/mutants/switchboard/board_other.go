//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package switchboard

// board is missing where files are not mapped in this way: no point is ever noted.
func board(string) []byte { return nil }

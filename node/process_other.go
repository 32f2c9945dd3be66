//go:build !unix

package node

// processLives cannot tell here, and says so by assuming the best.
func processLives(int) bool { return true }

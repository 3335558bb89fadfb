package forms

import "strings"

func isAssistant(role string) bool {
	switch strings.ToLower(role) {
	case "assistant", "ai", "model", "chatbot", "gpt", "bot":
		return true
	}
	return false
}

func isSystem(role string) bool { return role == "system" || role == "developer" }

func isTool(role string) bool { return role == "tool" || role == "function" }

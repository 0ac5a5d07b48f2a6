/** The messages of a TypeScript file: its string literals of several words, those that are joined by + as one. */
import ts from 'typescript'
import type { Prose } from './markdown-text.ts'

/** Shorter literals are names, keys and fragments. */
const WORDS_MIN = 4
/** What has none is no sentence but a list of words. */
const PUNCTUATION = /[.,:;!?]/

export function messagesOf(file: string, source: string): Prose[] {
  const parsed = ts.createSourceFile(file, source, ts.ScriptTarget.Latest, true)
  const found: Prose[] = []
  const visit = (node: ts.Node): void => {
    const text = textOf(node)
    if (text === null) return void ts.forEachChild(node, visit)
    // A help text has paragraphs, and columns that are parted by several spaces.
    for (const part of text.split(/\n\s*\n|\n(?= {2,}-)| {3,}|\n {2,}(?=\S)/)) {
      if (part.trim().split(/\s+/).length < WORDS_MIN || !PUNCTUATION.test(part)) continue
      found.push({ text: part.replaceAll(/`[^`]*`/g, 'code').trim(), line: lineOf(parsed, node) })
    }
  }
  visit(parsed)
  return found
}

/** Null: not a string, or one of an import. */
function textOf(node: ts.Node): string | null {
  if (ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) return ''
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text
  if (ts.isTemplateExpression(node))
    return node.head.text + node.templateSpans.map(({ literal }) => `value${literal.text}`).join('')
  if (ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken) {
    const [left, right] = [textOf(node.left), textOf(node.right)]
    return left === null || right === null ? null : left + right
  }
  return null
}

function lineOf(source: ts.SourceFile, node: ts.Node): number {
  return source.getLineAndCharacterOfPosition(node.getStart()).line + 1
}

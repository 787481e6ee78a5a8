// Gives the token to the server, which lets the browser send it from then on.
export async function signIn(base, token) {
  const response = await fetch(`${base}session`, { method: "POST", headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }, body: "{}" });
  if (!response.ok) throw new Error((await response.json()).detail);
}
